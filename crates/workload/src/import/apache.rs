//! Compiles an Apache `LogFormat` string (mod_log_config, httpd 2.4).
//!
//! A directive is `%`, optional statuses (`!200,304`), `<` or `>`, an optional argument in braces, then a letter. A
//! `strftime` argument of `%{…}t` compiles into one field per conversion.

use super::fields::{Field, Stamp, Time};
use super::template::Part;
use super::time::{CLF_BYTES, NS_PER_SECOND};

/// Compiles the format string; returns its parts and which end of a request its timestamps mark. The error describes
/// what is wrong.
pub fn compile(format: &str) -> Result<(Vec<Part>, Stamp), String> {
    let mut parts = Vec::new();
    let mut stamp = Stamp::Start;
    let mut rest = format;
    while let Some(at) = rest.find(['%', '\\']) {
        literal(&mut parts, &rest[..at]);
        let escape = rest.as_bytes()[at] == b'\\';
        rest = &rest[at + 1..];
        if escape {
            rest = unescape(rest, &mut parts)?;
        } else {
            let directive;
            (directive, rest) = Directive::parse(rest)?;
            directive.compile(&mut parts, &mut stamp)?;
        }
    }
    literal(&mut parts, rest);
    Ok((parts, stamp))
}

fn literal(parts: &mut Vec<Part>, text: &str) {
    if !text.is_empty() {
        parts.push(Part::Literal(text.as_bytes().to_vec()));
    }
}

/// Decodes `\"`, `\\`, `\n` and `\t` of a configuration file; returns the rest of the text.
fn unescape<'a>(rest: &'a str, parts: &mut Vec<Part>) -> Result<&'a str, String> {
    let mut characters = rest.chars();
    match characters.next() {
        Some('t') => literal(parts, "\t"),
        Some('n') => return Err("\\n: a request is one line".into()),
        Some(other) => literal(parts, other.encode_utf8(&mut [0; 4])),
        None => literal(parts, "\\"),
    }
    Ok(characters.as_str())
}

struct Directive<'a> {
    argument: Option<&'a str>,
    letter: char,
}

impl<'a> Directive<'a> {
    /// Parses the text after a `%`; returns the directive and the rest.
    fn parse(text: &'a str) -> Result<(Self, &'a str), String> {
        let is_modifier = |c: char| c.is_ascii_digit() || matches!(c, '!' | ',' | '<' | '>');
        let mut rest = text.trim_start_matches(is_modifier);
        let mut argument = None;
        if let Some(braced) = rest.strip_prefix('{') {
            let (inside, after) = braced.split_once('}').ok_or_else(|| format!("%{text}: no }} after {{"))?;
            argument = Some(inside);
            rest = after.trim_start_matches(is_modifier);
        }
        let letter = rest.chars().next().ok_or_else(|| format!("%{text}: no letter after %"))?;
        let after = &rest[letter.len_utf8()..];
        // `^FB`, `^ti` and `^to` have three characters; none is relevant.
        let after = if letter == '^' { after.get(2..).unwrap_or_default() } else { after };
        Ok((Directive { argument, letter }, after))
    }

    fn compile(&self, parts: &mut Vec<Part>, stamp: &mut Stamp) -> Result<(), String> {
        let field = match (self.letter, self.argument) {
            ('%', _) => {
                literal(parts, "%");
                return Ok(());
            }
            ('t', argument) => return time(argument, parts, stamp),
            ('h' | 'a', Some("c")) => Field::Peer,
            ('h' | 'a', _) => Field::Client,
            ('V', _) => Field::Host,
            ('v', _) => Field::ServerName,
            ('p', _) => Field::Port,
            ('r', _) => Field::Request,
            ('m', _) => Field::Method,
            ('U', _) => Field::Path,
            ('q', _) => Field::Query,
            ('s', _) => Field::Status,
            ('b' | 'B', _) => Field::Size,
            ('O', _) => Field::SizeWithHead,
            ('D', _) => Field::Duration { unit_ns: 1000 },
            ('T', unit) => duration(unit)?,
            ('i', Some(name)) if name.eq_ignore_ascii_case("host") => Field::Host,
            ('i', Some(name)) if name.eq_ignore_ascii_case("x-forwarded-for") => Field::ForwardedFor,
            (letter, _) if letter.is_ascii_alphabetic() || letter == '^' => Field::Ignored,
            (letter, _) => return Err(format!("%{letter} is not a directive")),
        };
        parts.push(Part::Field(field));
        // `%q` includes its question mark and may be empty, so nothing separates it from the path before it.
        if let [.., Part::Field(Field::Path), query @ Part::Field(Field::Query)] = &mut parts[..] {
            *query = Part::Literal(Vec::new());
            let path = parts.len() - 2;
            parts[path] = Part::Field(Field::Target);
        }
        Ok(())
    }
}

fn duration(unit: Option<&str>) -> Result<Field, String> {
    let unit_ns = match unit {
        None | Some("s") => NS_PER_SECOND,
        Some("ms") => NS_PER_SECOND / 1000,
        Some("us") => 1000,
        Some(other) => return Err(format!("%{{{other}}}T: the unit is s, ms or us")),
    };
    Ok(Field::Duration { unit_ns })
}

/// `%t`, `%{begin:…}t`, `%{end:…}t` with `sec`, `msec`, `usec`, `msec_frac`, `usec_frac` or `strftime`.
fn time(argument: Option<&str>, parts: &mut Vec<Part>, stamp: &mut Stamp) -> Result<(), String> {
    let Some(argument) = argument else {
        let clf = Part::Fixed(Field::Time(Time::Clf), CLF_BYTES);
        parts.extend([Part::Literal(b"[".into()), clf, Part::Literal(b"]".into())]);
        return Ok(());
    };
    let form = match argument.split_once(':') {
        Some(("begin", form)) => form,
        Some(("end", form)) => {
            *stamp = Stamp::End;
            form
        }
        _ => argument,
    };
    let time = match form {
        "sec" => Time::Epoch { unit_ns: NS_PER_SECOND },
        "msec" => Time::Epoch { unit_ns: NS_PER_SECOND / 1000 },
        "usec" => Time::Epoch { unit_ns: 1000 },
        "msec_frac" | "usec_frac" => {
            let (unit_ns, digits) = if form == "msec_frac" { (1_000_000, 3) } else { (1000, 6) };
            parts.push(Part::Fixed(Field::Time(Time::Fraction { unit_ns }), digits));
            return Ok(());
        }
        strftime => return conversions(strftime, parts),
    };
    parts.push(Part::Field(Field::Time(time)));
    Ok(())
}

/// The conversions of `strftime` that logs are made of; all but `%s` and `%Z` have a fixed width.
fn conversions(form: &str, parts: &mut Vec<Part>) -> Result<(), String> {
    let mut rest = form;
    while let Some(at) = rest.find('%') {
        literal(parts, &rest[..at]);
        let conversion = rest[at + 1..].chars().next().ok_or("a strftime format ends in %")?;
        rest = &rest[at + 1 + conversion.len_utf8()..];
        let fixed = |time, width| Part::Fixed(Field::Time(time), width);
        match conversion {
            'Y' => parts.push(fixed(Time::Year, 4)),
            'm' => parts.push(fixed(Time::Month, 2)),
            'b' | 'h' => parts.push(fixed(Time::MonthName, 3)),
            'd' | 'e' => parts.push(fixed(Time::Day, 2)),
            'H' => parts.push(fixed(Time::Hour, 2)),
            'M' => parts.push(fixed(Time::Minute, 2)),
            'S' => parts.push(fixed(Time::Second, 2)),
            'z' => parts.push(fixed(Time::Zone, 5)),
            'F' => conversions("%Y-%m-%d", parts)?,
            'T' => conversions("%H:%M:%S", parts)?,
            'R' => conversions("%H:%M", parts)?,
            's' => parts.push(Part::Field(Field::Time(Time::Epoch { unit_ns: NS_PER_SECOND }))),
            'a' => parts.push(Part::Fixed(Field::Ignored, 3)),
            'Z' => parts.push(Part::Field(Field::Ignored)),
            '%' => literal(parts, "%"),
            other => return Err(format!("%{{…%{other}…}}t: this strftime conversion is not supported")),
        }
    }
    literal(parts, rest);
    Ok(())
}
