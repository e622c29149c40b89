//! Where functions start and how long they are.

use crate::source::closing;
use crate::tokens::{Kind, Token};

/// One function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// The line of its `fn`.
    pub(crate) line: usize,
    /// How many lines it has, from `fn` to the closing brace.
    pub(crate) lines: usize,
}

/// Every function in the tokens, inner ones included.
pub(crate) fn functions(tokens: &[Token]) -> Vec<Function> {
    let starts = (0..tokens.len()).filter(|index| tokens[*index].is("fn"));
    starts.filter_map(|start| function_at(tokens, start)).collect()
}

/// The function whose `fn` is at `start`; none for a type or a declaration without a body.
fn function_at(tokens: &[Token], start: usize) -> Option<Function> {
    let name = tokens.get(start + 1).filter(|token| token.kind == Kind::Word)?;
    let mut index = start + 2;
    loop {
        let token = tokens.get(index)?;
        if token.is("(") || token.is("[") {
            index = closing(tokens, index);
        } else if token.is(";") || token.is("}") {
            return None;
        } else if token.is("{") {
            break;
        }
        index += 1;
    }
    let line = tokens[start].line;
    let last = tokens[closing(tokens, index)].line;
    Some(Function { name: name.text.clone(), line, lines: last - line + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::tokenise;

    #[test]
    fn lengths_count_from_fn_to_the_closing_brace() {
        let text = "impl A {\n  pub fn one(&self) -> [u8; 2] {\n    let x = \"}\";\n    // }\n  }\n fn two() {}\n}";
        let found: Vec<(String, usize, usize)> = functions(&tokenise(text))
            .into_iter()
            .map(|function| (function.name, function.line, function.lines))
            .collect();
        assert_eq!(found, [("one".to_owned(), 2, 4), ("two".to_owned(), 6, 1)]);
    }

    #[test]
    fn declarations_and_types_are_no_functions() {
        let text = "trait A { fn a(&self); } type B = fn(u8) -> u8; fn outer() { fn inner() {} }";
        let names: Vec<String> = functions(&tokenise(text)).into_iter().map(|function| function.name).collect();
        assert_eq!(names, ["outer", "inner"]);
    }
}
