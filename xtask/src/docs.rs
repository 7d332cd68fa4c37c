//! Checks the documents: their links, file names and tables of fields. Builds them as a book.

use std::{
    collections::{HashMap, HashSet},
    env,
    error::Error,
    fs, io,
    path::{Component, Path, PathBuf},
    process::Command,
};

/// The page that lists all other pages in the order of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Checks all links and tables of fields, and builds the book with mdBook. Returns complaints. If
/// mdBook is not installed, that is a complaint only in CI.
pub(crate) fn run(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut complaints = check(root)?;
    complaints.extend(check_fields(root)?);
    match Command::new("mdbook")
        .arg("build")
        .current_dir(root)
        .status()
    {
        Ok(status) if status.success() => {}
        Ok(status) => complaints.push(format!("mdbook build: {status}")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let problem = "mdbook is not installed: the book was not built";
            match env::var_os("CI") {
                Some(_) => complaints.push(problem.to_owned()),
                None => eprintln!("{problem}"),
            }
        }
        Err(error) => return Err(error.into()),
    }
    Ok(complaints)
}

/// Folders of the repository. A code span in a document that begins with one of them is taken for
/// the name of a file, which must exist.
const FOLDERS: [&str; 6] = [
    "crates/",
    "docs/",
    "examples/",
    "benches/",
    "xtask/",
    "circuits/",
];

/// Pages that list the fields of JSON files, with the sources that define these fields.
const FIELDS: [(&str, &[&str]); 2] = [
    (
        "docs/records.md",
        &[
            "crates/testbed/src/record.rs",
            "crates/testbed/src/programs/record.rs",
            "crates/testbed/src/runner/hosts/record.rs",
            "crates/netem/src/model/counters.rs",
        ],
    ),
    (
        "docs/model-file.md",
        &[
            "crates/select/src/model.rs",
            "crates/select/src/goodness.rs",
        ],
    ),
];

/// Returns a complaint for every link of README.md, docs/ and examples/ whose file or heading does
/// not exist, for every missing file that a code span names, and for every page that the summary
/// does not list.
///
/// Pages of the book may link only to pages of the book. Generated results are exempt.
pub(crate) fn check(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut paths = vec![PathBuf::from("README.md")];
    for folder in ["docs", "examples"] {
        collect_pages(root, Path::new(folder), &mut paths)?;
    }
    let mut pages = HashMap::new();
    for path in &paths {
        pages.insert(path.clone(), fs::read_to_string(root.join(path))?);
    }
    let mut complaints = Vec::new();
    let mut listed = Vec::new();
    for path in &paths {
        for target in links(&pages[path]) {
            if let Err(problem) = resolve(root, path, target, &pages, &mut listed) {
                complaints.push(format!("{}: {target}: {problem}", path.display()));
            }
        }
        let missing = named_files(&pages[path]).filter(|file| !root.join(file).exists());
        complaints.extend(missing.map(|file| format!("{}: there is no {file}", path.display())));
    }
    let is_missing = |path: &&PathBuf| {
        path.starts_with("docs") && **path != Path::new(SUMMARY) && !listed.contains(path)
    };
    let missing = paths.iter().filter(is_missing);
    complaints.extend(missing.map(|path| format!("{SUMMARY}: lacks {}", path.display())));
    Ok(complaints)
}

/// Returns a complaint for every public field of the sources in [`FIELDS`] that the page for these
/// sources does not list.
fn check_fields(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut complaints = Vec::new();
    for (page, sources) in FIELDS {
        let text = fs::read_to_string(root.join(page))?;
        for source in sources {
            let code = fs::read_to_string(root.join(source))
                .map_err(|error| format!("{source}, whose fields {page} lists: {error}"))?;
            let missing = missing_fields(&text, &code);
            complaints.extend(missing.map(|field| format!("{page}: lacks `{field}` of {source}")));
        }
    }
    Ok(complaints)
}

/// Returns the public fields of a source that no code span of a page contains.
fn missing_fields<'a>(page: &str, source: &'a str) -> impl Iterator<Item = &'a str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let documented: HashSet<&str> = prose(page)
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .flat_map(|span| span.split(move |c| !is_name(c)))
        .collect();
    let fields: Vec<&str> = (source.lines())
        .filter_map(|line| line.strip_prefix("    pub ")?.split_once(": "))
        .map(|(field, _)| field)
        .filter(|field| field.chars().all(is_name) && !documented.contains(field))
        .collect();
    fields.into_iter()
}

/// Checks that the target of a link exists. If the link is in the summary, adds the target to
/// `listed`.
fn resolve(
    root: &Path,
    page: &Path,
    target: &str,
    pages: &HashMap<PathBuf, String>,
    listed: &mut Vec<PathBuf>,
) -> Result<(), &'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
    let path = match file {
        "" => page.to_owned(),
        _ => normalized(&page.with_file_name("").join(file)).ok_or("outside of the repository")?,
    };
    if !root.join(&path).exists() {
        return Err("no such file");
    }
    let is_page_of_the_book = page.starts_with("docs") && !page.starts_with("docs/results");
    if is_page_of_the_book && !path.starts_with("docs") {
        return Err("outside of the book: name the file instead");
    }
    if page == Path::new(SUMMARY) {
        listed.push(path.clone());
    }
    let has_heading = || {
        let text = pages.get(&path)?;
        anchors(text).any(|anchor| anchor == fragment).then_some(())
    };
    if fragment.is_empty() || has_heading().is_some() {
        Ok(())
    } else {
        Err("no such heading")
    }
}

/// Removes `.` and resolves `..`. Returns `None` for a path that leads out of the root.
fn normalized(path: &Path) -> Option<PathBuf> {
    let mut normalized = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                if !normalized.pop() {
                    return None;
                }
            }
            Component::Normal(name) => normalized.push(name),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(normalized)
}

/// Returns the lines of a page outside of fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_fenced = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

/// Returns the targets of the links and pictures of a page.
fn links(text: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    for line in prose(text) {
        // Splitting at backticks gives text and code alternately. Only the text is searched.
        for part in line.split('`').step_by(2) {
            let mut rest = part;
            while let Some((_, after)) = rest.split_once("](") {
                let Some((target, after)) = after.split_once(')') else {
                    break;
                };
                targets.push(target);
                rest = after;
            }
        }
    }
    targets
}

/// Returns the files and folders of the repository that the code spans of a page name.
fn named_files(text: &str) -> impl Iterator<Item = &str> {
    let is_file = |span: &&str| {
        FOLDERS.iter().any(|folder| span.starts_with(folder))
            && !span.contains([' ', '*', '{', '<', '…'])
            && !span.contains("NAME")
    };
    prose(text)
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(is_file)
}

/// Returns the anchors of the headings of a page, as mdBook and GitHub derive them.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    prose(text)
        .filter(|line| line.starts_with('#'))
        .map(move |line| {
            let heading = line.trim_start_matches('#').trim();
            let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
            let slug: String = (heading.chars().filter(kept))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect::<String>()
                .to_lowercase();
            let count = seen.entry(slug.clone()).or_default();
            *count += 1;
            match *count {
                1 => slug,
                _ => format!("{slug}-{}", *count - 1),
            }
        })
}

/// Appends the paths of all pages in a folder and its subfolders, sorted by name.
fn collect_pages(
    root: &Path,
    folder: &Path,
    pages: &mut Vec<PathBuf>,
) -> Result<(), Box<dyn Error>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join(folder))? {
        names.push(folder.join(entry?.file_name()));
    }
    names.sort();
    for path in names {
        if root.join(&path).is_dir() {
            // Folders named `target` contain build output.
            if path.ends_with("target") {
                continue;
            }
            collect_pages(root, &path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_links_of_the_documents_resolve() {
        let complaints = check(&crate::root()).unwrap();
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }

    #[test]
    fn the_documents_list_the_fields_of_files() {
        let complaints = check_fields(&crate::root()).unwrap();
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }

    #[test]
    fn missing_fields_are_found() {
        let source = "pub struct Row {\n    pub total_ms: f64,\n    pub lost: u64,\n    hidden: u8,\n}\n    pub fn f(a: u8) {}\n";
        let missing: Vec<_> = missing_fields("| `measured.total_ms` |\n", source).collect();
        assert_eq!(missing, ["lost"]);
    }

    #[test]
    fn dead_links_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("docs")).unwrap();
        fs::create_dir(root.join("examples")).unwrap();
        let write = |name: &str, text: &str| fs::write(root.join(name), text).unwrap();
        write(
            "README.md",
            "[a](docs/a.md#two-words) [gone](docs/b.md) `[code](no.md)`\n",
        );
        write(
            "docs/a.md",
            "# Two words\n\n[here](#two-words) [there](#three) [out](../README.md) `docs/a.md` `crates/gone.rs`\n\n```\n[fenced](no.md)\n```\n",
        );
        write(
            "docs/c.md",
            "[elsewhere](https://example.org) [away](../../x)\n",
        );
        write(SUMMARY, "- [a](a.md)\n");
        let complaints = check(root).unwrap();
        assert_eq!(
            complaints,
            [
                "README.md: docs/b.md: no such file",
                "docs/a.md: #three: no such heading",
                "docs/a.md: ../README.md: outside of the book: name the file instead",
                "docs/a.md: there is no crates/gone.rs",
                "docs/c.md: ../../x: outside of the repository",
                "docs/SUMMARY.md: lacks docs/c.md",
            ]
        );
    }

    #[test]
    fn anchors_are_those_of_mdbook() {
        let page = "# A `b`, c: d\n## Same\n## Same\n```\n# no heading\n```\n";
        let found: Vec<String> = anchors(page).collect();
        assert_eq!(found, ["a-b-c-d", "same", "same-1"]);
    }
}
