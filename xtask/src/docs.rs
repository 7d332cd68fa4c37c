//! Checks the links of the documents, and builds them as a book.

use std::{
    collections::HashMap,
    error::Error,
    fs, io,
    path::{Component, Path, PathBuf},
    process::Command,
};

/// The page that lists all others in the order of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Checks all links, and builds the book if mdBook is installed.
pub(crate) fn run(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut complaints = check(root)?;
    match Command::new("mdbook")
        .arg("build")
        .current_dir(root)
        .status()
    {
        Ok(status) if status.success() => {}
        Ok(status) => complaints.push(format!("mdbook build: {status}")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            eprintln!("mdbook is not installed: the book was not built");
        }
        Err(error) => return Err(error.into()),
    }
    Ok(complaints)
}

/// Names every link of README.md and docs/ whose file or heading does not exist, and every page that the summary lacks.
///
/// Pages of the book link to files of the book only, because others are not part of it. Generated results are exempt.
pub(crate) fn check(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut paths = vec![PathBuf::from("README.md")];
    collect_pages(root, Path::new("docs"), &mut paths)?;
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
    }
    let is_missing = |path: &&PathBuf| {
        path.starts_with("docs") && **path != Path::new(SUMMARY) && !listed.contains(path)
    };
    let missing = paths.iter().filter(is_missing);
    complaints.extend(missing.map(|path| format!("{SUMMARY}: lacks {}", path.display())));
    Ok(complaints)
}

/// Checks one link; notes its target if the page is the summary.
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

/// Removes `.` and `..`; returns nothing for a path that leaves its root.
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
        // Every second part of a line is code.
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

/// Adds all pages of a folder and its folders, in order.
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
    fn dead_links_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("docs")).unwrap();
        let write = |name: &str, text: &str| fs::write(root.join(name), text).unwrap();
        write(
            "README.md",
            "[a](docs/a.md#two-words) [gone](docs/b.md) `[code](no.md)`\n",
        );
        write(
            "docs/a.md",
            "# Two words\n\n[here](#two-words) [there](#three) [out](../README.md)\n\n```\n[fenced](no.md)\n```\n",
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
