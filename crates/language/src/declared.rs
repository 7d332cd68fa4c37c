//! Finds the declaration order of struct fields in a source. The compiler sorts the fields by name
//! and does not keep the declaration order.

use std::collections::HashMap;

use garble_lang::{
    scan::scan,
    token::{Token, TokenEnum},
};

/// Returns the field names of each struct in declaration order, by the name of the struct. Structs
/// with syntax errors may be missing.
pub(crate) fn fields(source: &str) -> HashMap<String, Vec<String>> {
    let mut structs = HashMap::new();
    let Ok(tokens) = scan(source) else {
        return structs;
    };
    let mut tokens = (tokens.0.iter()).map(|Token(token, _)| token).peekable();
    while let Some(token) = tokens.next() {
        if *token != TokenEnum::KeywordStruct {
            continue;
        }
        let Some(TokenEnum::Identifier(name)) = tokens.next() else {
            continue;
        };
        let mut fields = Vec::new();
        while let Some(token) = tokens.next_if(|token| **token != TokenEnum::RightBrace) {
            // An identifier before a colon is a field name, because types contain no colons.
            if let (TokenEnum::Identifier(field), Some(TokenEnum::Colon)) = (token, tokens.peek()) {
                fields.push(field.clone());
            }
        }
        structs.insert(name.clone(), fields);
    }
    structs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_order() {
        let source = "
            struct Pair { second: [Other; 2], first: (u8, bool) }
            struct Other { x: i8, }
            struct Empty {}
            pub fn main(x: Pair) -> Other { let y = Other { x: 1i8 }; y }";
        let found = fields(source);
        assert_eq!(found["Pair"], ["second", "first"]);
        assert_eq!(
            (&found["Other"][..], found["Empty"].len()),
            (&["x".to_owned()][..], 0)
        );
        assert_eq!(found.len(), 3);
        assert!(fields("struct").is_empty() && fields("struct A { x").len() == 1);
    }
}
