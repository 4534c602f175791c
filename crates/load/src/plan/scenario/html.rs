//! Extracts the value of an HTML form field, such as a CSRF token.

/// The value of the first `<input>` or `<meta>` with this name.
pub fn input_value(html: &str, name: &str) -> Option<String> {
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let of_tag = |tag: &str| rest.get(..tag.len()).is_some_and(|own| own.eq_ignore_ascii_case(tag));
        let tag = ["input", "meta"].into_iter().find(|tag| of_tag(tag));
        let Some(tag) = tag else { continue };
        let after = &rest[tag.len()..];
        if !after.starts_with(|c: char| c.is_ascii_whitespace() || c == '/') {
            continue;
        }
        let (mut is_named, mut value) = (false, None);
        let mut attributes = Attributes(after);
        for (key, text) in &mut attributes {
            match key.to_ascii_lowercase().as_str() {
                "name" => is_named |= decoded(text) == name,
                "value" | "content" => value = value.or(Some(text)),
                _ => {}
            }
        }
        rest = attributes.0;
        if is_named {
            return Some(decoded(value.unwrap_or_default()));
        }
    }
    None
}

/// The attributes of a tag, up to its end.
struct Attributes<'a>(&'a str);

impl<'a> Iterator for &mut Attributes<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let is_blank = |c: char| c.is_ascii_whitespace() || c == '/';
        let text = self.0.trim_start_matches(is_blank);
        let end = text.find(|c: char| is_blank(c) || c == '=' || c == '>').unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        self.0 = rest;
        let Some(value) = rest.trim_start_matches(|c: char| c.is_ascii_whitespace()).strip_prefix('=') else {
            return (!name.is_empty()).then_some((name, ""));
        };
        let value = value.trim_start_matches(|c: char| c.is_ascii_whitespace());
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        let (value, rest) = match quote {
            Some(quote) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
            None => value
                .split_at(value.find(|c: char| c.is_ascii_whitespace() || c == '>').unwrap_or(value.len())),
        };
        self.0 = rest;
        Some((name, value))
    }
}

/// Decodes the character references that templates write: the five of XML, and numbers.
fn decoded(text: &str) -> String {
    let (mut output, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('&') {
        output.push_str(&rest[..at]);
        rest = &rest[at..];
        let reference = rest.find(';').and_then(|end| Some((character(&rest[1..end])?, end + 1)));
        let (character, length) = reference.unwrap_or(('&', 1));
        output.push(character);
        rest = &rest[length..];
    }
    output + rest
}

fn character(reference: &str) -> Option<char> {
    Some(match reference {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        number => {
            let number = number.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(html: &str, expected: Option<&str>) {
        assert_eq!(input_value(html, "csrf").as_deref(), expected, "{html}");
    }

    #[test]
    fn fields_as_applications_write_them() {
        check(r#"<form><input type="hidden" name="csrf" value="IjA.x-_y"></form>"#, Some("IjA.x-_y"));
        check("<INPUT VALUE='a>b' NAME='csrf'/>", Some("a>b"));
        check("<input value = t1 name=csrf>", Some("t1"));
        check(r#"<input name=other value=1><input name="csrf" value="2">"#, Some("2"));
        check(r#"<meta name="csrf" content="m&#x2F;&amp;&#39;&nbsp;&">"#, Some("m/&'&nbsp;&"));
        check(r#"<input name="csrf">"#, Some(""));
        check(r#"<inputs name="csrf" value="1">name="csrf" value="2""#, None);
        check("<input name=\"csrf", Some(""));
        check("", None);
    }

    proptest! {
        #[test]
        fn values_survive_being_written(value in "[ -~é]{0,20}", other in "[ -~]{0,30}") {
            prop_assume!(!other.contains('<'));
            let escaped = value.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&#34;");
            let html = format!("{other}<br/><input id=x name=\"csrf\" checked value=\"{escaped}\" >{other}");
            prop_assert_eq!(input_value(&html, "csrf"), Some(value));
        }

        #[test]
        fn anything_ends(html in "[<>a-z\"'=& /inputname]{0,60}|\\PC{0,40}") {
            let _ = input_value(&html, "csrf");
        }
    }
}
