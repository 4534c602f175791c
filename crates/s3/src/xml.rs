//! Reads single elements of the XML that object stores and the token service send: error codes and credentials.
//!
//! It is no XML parser: these documents are flat, machine-made and small, and everything that depends on them is
//! checked again where it is used.

/// The text of the first element called `name`, without attributes, in `document`.
pub fn text_of(document: &str, name: &str) -> Option<String> {
    let start = document.find(&format!("<{name}>"))? + name.len() + 2;
    let length = document[start..].find(&format!("</{name}>"))?;
    let text = &document[start..start + length];
    (!text.contains('<')).then(|| unescaped(text))
}

fn unescaped(text: &str) -> String {
    // The ampersand last, so that `&amp;lt;` does not become a bracket.
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")]
        .iter()
        .fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements() {
        let error = "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>a &amp;lt; b</Message><Key/></Error>";
        assert_eq!(text_of(error, "Code").as_deref(), Some("NoSuchKey"));
        assert_eq!(text_of(error, "Message").as_deref(), Some("a &lt; b"));
        for absent in ["Error", "Key", "Code>", ""] {
            assert_eq!(text_of(error, absent), None, "{absent}");
        }
    }
}
