//! Text with variables, such as `/items/${id}`. Values are encoded or refused depending on their place.
//!
//! `${name}` is a value of the user: a column of the feeder file, a constant, or extracted from a response. `$${`
//! stands for a literal `${`. Generated values are listed in `GENERATED`.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Values generated anew each time, as documented.
pub const GENERATED: [(&str, &str); 6] = [
    ("user", "the number of the virtual user, from 0 on"),
    ("iteration", "how many iterations the user has begun before this one"),
    ("random:A-B", "a whole number from A to B, each equally likely"),
    ("choose:A,B,C", "one of these words, each equally likely"),
    ("uuid", "a random UUID of version 4"),
    ("env:NAME", "the environment variable NAME, read once"),
];

/// What filling in a template uses.
pub struct Context<'a> {
    pub values: &'a [Option<String>],
    pub user: u64,
    pub iteration: u64,
    pub random: &'a mut Xoshiro256PlusPlus,
}

/// A value is missing, or invalid in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unusable;

/// Where a text is used, which decides its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A body, with no restrictions.
    Body,
    /// A field's value: no control characters.
    Field,
    /// A path with query: values are percent-encoded, the template's own text is not.
    Url,
    /// A name or value in a form.
    Form,
    /// Within quotation marks in JSON.
    Json,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Already encoded.
    Text(Vec<u8>),
    Value {
        source: Source,
        place: Place,
        is_raw: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Variable(usize),
    User,
    Iteration,
    Random(u64, u64),
    Choose(Vec<String>),
    Uuid,
}

/// The numbered variables of a scenario, and where they are defined and used.
#[derive(Debug, Default)]
pub struct Variables {
    pub names: Vec<String>,
    defined: Vec<bool>,
}

impl Variables {
    pub fn number(&mut self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.defined.push(false);
            self.names.len() - 1
        })
    }

    /// The number of a variable that is defined here.
    pub fn define(&mut self, name: &str) -> usize {
        let number = self.number(name);
        self.defined[number] = true;
        number
    }

    /// The first variable that is never defined.
    pub fn undefined(&self) -> Option<&str> {
        self.defined.iter().position(|defined| !defined).map(|number| self.names[number].as_str())
    }
}

pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Template {
    /// Parses a text for this place.
    pub fn parse(
        text: &str,
        place: Place,
        variables: &mut Variables,
        environment: Environment<'_>,
    ) -> Result<Template, String> {
        let mut template = Template::default();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            if rest[..at].ends_with('$') {
                template.push_text(&rest[..at - 1], place);
                template.push_text("${", place);
                rest = &rest[at + 2..];
                continue;
            }
            template.push_text(&rest[..at], place);
            let end = rest[at..].find('}').ok_or_else(|| format!("{text:?}: `${{` has no `}}`"))? + at;
            let word = &rest[at + 2..end];
            let (name, is_raw) = word.strip_suffix("|raw").map_or((word, false), |name| (name, true));
            if let Some(name) = name.strip_prefix("env:") {
                let value =
                    environment(name).ok_or_else(|| format!("there is no environment variable {name}"))?;
                template.push_value(&value, place, is_raw)?;
            } else {
                let source = Source::parse(name, variables).ok_or_else(|| unknown(word))?;
                template.parts.push(Part::Value { source, place, is_raw });
            }
            rest = &rest[end + 1..];
        }
        template.push_text(rest, place);
        Ok(template)
    }

    /// Appends literal bytes.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        match self.parts.last_mut() {
            Some(Part::Text(text)) => text.extend_from_slice(bytes),
            _ if bytes.is_empty() => {}
            _ => self.parts.push(Part::Text(bytes.to_vec())),
        }
    }

    pub fn append(&mut self, other: Template) {
        for part in other.parts {
            match part {
                Part::Text(text) => self.push_bytes(&text),
                value => self.parts.push(value),
            }
        }
    }

    /// Its text, if no values are filled in.
    pub fn literal(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(b""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns true if it starts with an unencoded value.
    pub fn starts_raw(&self) -> bool {
        matches!(self.parts.first(), Some(Part::Value { is_raw: true, .. }))
    }

    /// Returns true if it is a single unencoded value.
    pub fn is_raw_value(&self) -> bool {
        matches!(self.parts.as_slice(), [Part::Value { is_raw: true, .. }])
    }

    /// Writes the text with its variables filled in.
    pub fn render(&self, output: &mut Vec<u8>, context: &mut Context<'_>) -> Result<(), Unusable> {
        for part in &self.parts {
            match part {
                Part::Text(text) => output.extend_from_slice(text),
                Part::Value { source, place, is_raw } => source.write(output, *place, *is_raw, context)?,
            }
        }
        Ok(())
    }

    fn push_text(&mut self, text: &str, place: Place) {
        let mut encoded = Vec::new();
        match place {
            // The file's own text is taken literally.
            Place::Url => text.bytes().for_each(|byte| match byte.is_ascii_graphic() {
                true => encoded.push(byte),
                false => percent(byte, &mut encoded),
            }),
            _ => encode(text, place, &mut encoded),
        }
        self.push_bytes(&encoded);
    }

    fn push_value(&mut self, text: &str, place: Place, is_raw: bool) -> Result<(), String> {
        let mut encoded = Vec::new();
        write_value(text, place, is_raw, &mut encoded)
            .map_err(|Unusable| format!("{text:?} is not allowed there"))?;
        self.push_bytes(&encoded);
        Ok(())
    }
}

impl Source {
    fn parse(word: &str, variables: &mut Variables) -> Option<Source> {
        Some(match word.split_once(':') {
            None => match word {
                "user" => Source::User,
                "iteration" => Source::Iteration,
                "uuid" => Source::Uuid,
                name if is_name(name) => Source::Variable(variables.number(name)),
                _ => return None,
            },
            Some(("random", range)) => {
                let (from, to) = range.split_once('-')?;
                let (from, to) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
                if from > to {
                    return None;
                }
                Source::Random(from, to)
            }
            Some(("choose", words)) => Source::Choose(words.split(',').map(str::to_owned).collect()),
            Some(_) => return None,
        })
    }

    fn write(
        &self,
        output: &mut Vec<u8>,
        place: Place,
        is_raw: bool,
        context: &mut Context<'_>,
    ) -> Result<(), Unusable> {
        let random = &mut *context.random;
        let text = match self {
            Source::Variable(number) => {
                let value = context.values[*number].as_deref().ok_or(Unusable)?;
                return write_value(value, place, is_raw, output);
            }
            Source::Choose(words) => {
                return write_value(&words[random.random_range(0..words.len())], place, is_raw, output);
            }
            Source::User => context.user.to_string(),
            Source::Iteration => context.iteration.to_string(),
            Source::Random(from, to) => random.random_range(*from..=*to).to_string(),
            Source::Uuid => uuid(random.random()),
        };
        output.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// A variable's name: a letter or `_`, then also digits, dots and hyphens.
pub fn is_name(text: &str) -> bool {
    let first = text.as_bytes().first();
    first.is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

fn unknown(word: &str) -> String {
    let known: Vec<_> = GENERATED.iter().map(|(name, _)| *name).collect();
    format!("${{{word}}} is neither a variable nor one of {}", known.join(", "))
}

fn write_value(value: &str, place: Place, is_raw: bool, output: &mut Vec<u8>) -> Result<(), Unusable> {
    if !is_raw {
        encode(value, place, output);
    }
    // Bytes that would end the line or field are refused, wherever they come from.
    let is_safe = |byte: u8| match place {
        Place::Url => byte.is_ascii_graphic(),
        Place::Field => byte >= b' ' && byte != 0x7f || byte == b'\t',
        Place::Body | Place::Form | Place::Json => true,
    };
    if (is_raw || place == Place::Field) && !value.bytes().all(is_safe) {
        return Err(Unusable);
    }
    if is_raw {
        output.extend_from_slice(value.as_bytes());
    }
    Ok(())
}

fn encode(text: &str, place: Place, output: &mut Vec<u8>) {
    match place {
        Place::Body | Place::Field => output.extend_from_slice(text.as_bytes()),
        // RFC 3986, 2.3: unreserved characters.
        Place::Url => text.bytes().for_each(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => output.push(byte),
            _ => percent(byte, output),
        }),
        // The form-urlencoded serialisation of the URL standard, as in browsers.
        Place::Form => text.bytes().for_each(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => output.push(byte),
            b' ' => output.push(b'+'),
            _ => percent(byte, output),
        }),
        Place::Json => {
            let quoted = serde_json::to_string(text).unwrap_or_default();
            output.extend_from_slice(
                quoted.trim_start_matches('"').strip_suffix('"').unwrap_or_default().as_bytes(),
            );
        }
    }
}

fn percent(byte: u8, output: &mut Vec<u8>) {
    output.extend_from_slice(format!("%{byte:02X}").as_bytes());
}

/// RFC 9562, 5.4.
fn uuid(random: u128) -> String {
    let bits = random & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let digits = format!("{bits:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;

    fn environment(name: &str) -> Option<String> {
        (name == "TOKEN").then(|| "a b".to_owned())
    }

    fn rendered(text: &str, place: Place, value: Option<&str>) -> Result<String, Unusable> {
        let mut variables = Variables::default();
        variables.define("x");
        let template = Template::parse(text, place, &mut variables, &environment).unwrap();
        let mut output = Vec::new();
        let random = &mut Xoshiro256PlusPlus::seed_from_u64(3);
        let values = &[value.map(str::to_owned)];
        template.render(&mut output, &mut Context { values, user: 7, iteration: 2, random })?;
        Ok(String::from_utf8(output).unwrap())
    }

    fn check(text: &str, place: Place, value: &str, expected: &str) {
        assert_eq!(rendered(text, place, Some(value)).as_deref(), Ok(expected), "{text} with {value:?}");
    }

    #[test]
    fn values_are_encoded_for_their_place() {
        check("/a b?x=${x}&y=%20", Place::Url, "1/2 &ü", "/a%20b?x=1%2F2%20%26%C3%BC&y=%20");
        check("${x|raw}", Place::Url, "/a?b=c", "/a?b=c");
        check("${x}", Place::Form, "a b&c~*", "a+b%26c%7E*");
        check("é=${x|raw}", Place::Form, "a&b", "%C3%A9%3Da&b");
        check("say ${x}", Place::Json, "\"hi\"\n\\", "say \\\"hi\\\"\\n\\\\");
        check("Bearer ${x}", Place::Field, "t=;", "Bearer t=;");
        check("a${x}b${x}", Place::Body, "\r\n", "a\r\nb\r\n");
        check("$${x} $ ${x}", Place::Body, "1", "${x} $ 1");
        check("${user}/${iteration}/${env:TOKEN}", Place::Url, "", "7/2/a%20b");
    }

    #[test]
    fn what_cannot_stand_there_is_not_sent() {
        assert_eq!(rendered("${x}", Place::Body, None), Err(Unusable));
        for (place, value) in
            [(Place::Url, "a b"), (Place::Url, "/\r\n"), (Place::Url, "ü"), (Place::Field, "a\r\nb: c")]
        {
            assert_eq!(rendered("${x|raw}", place, Some(value)), Err(Unusable), "{value:?}");
        }
        assert_eq!(rendered("${x}", Place::Field, Some("a\nb")), Err(Unusable));
    }

    #[test]
    fn generated_values() {
        let number = rendered("${random:5-6}", Place::Body, None).unwrap();
        assert!(number == "5" || number == "6");
        assert!(["a", "b c"].contains(&rendered("${choose:a,b c}", Place::Body, None).unwrap().as_str()));
        let uuid = rendered("${uuid}", Place::Body, None).unwrap();
        assert!(uuid.len() == 36 && &uuid[14..15] == "4" && "89ab".contains(&uuid[19..20]), "{uuid}");
    }

    #[test]
    fn refusals() {
        for bad in [
            "${x",
            "${}",
            "${a b}",
            "${random:5}",
            "${random:6-5}",
            "${nonsense:x}",
            "${env:MISSING}",
            "${1}",
        ] {
            let parsed = Template::parse(bad, Place::Body, &mut Variables::default(), &environment);
            assert!(parsed.is_err(), "{bad}");
        }
        let mut variables = Variables::default();
        variables.define("a");
        Template::parse("${a}${b}", Place::Body, &mut variables, &environment).unwrap();
        assert_eq!(variables.undefined(), Some("b"));
    }

    proptest! {
        #[test]
        fn no_value_breaks_out_of_its_place(value in "\\PC{0,20}|[\\x00-\\x7f]{0,20}") {
            let url = rendered("/${x}", Place::Url, Some(&value)).unwrap();
            prop_assert!(url.bytes().all(|byte| byte.is_ascii_graphic()) && !url[1..].contains(['/', '?', '#']));
            let form = rendered("${x}", Place::Form, Some(&value)).unwrap();
            prop_assert!(form.bytes().all(|byte| byte.is_ascii_graphic()) && !form.contains(['&', '=']));
            let json = format!("\"{}\"", rendered("${x}", Place::Json, Some(&value)).unwrap());
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), value.clone());
            if let Ok(field) = rendered("${x}", Place::Field, Some(&value)) {
                prop_assert!(!field.contains(['\r', '\n', '\0']));
            }
        }
    }
}
