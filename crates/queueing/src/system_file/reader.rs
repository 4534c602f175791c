//! A TOML document with line numbers: each value knows its line, and each table knows which of its keys were read.

use std::cell::RefCell;
use std::collections::BTreeSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Step, SystemFileError};

pub(super) struct Document<'d> {
    text: &'d str,
    table: Spanned<DeTable<'d>>,
}

impl<'d> Document<'d> {
    pub(super) fn new(text: &'d str) -> Result<Self, SystemFileError> {
        let refuse = |error: toml::de::Error| {
            let line = line_at(text, error.span().map_or(0, |span| span.start));
            SystemFileError { line, message: error.message().trim().to_owned() }
        };
        Ok(Self { text, table: DeTable::parse(text).map_err(refuse)? })
    }

    pub(super) fn root(&self) -> Reader<'_> {
        let table = self.table.get_ref();
        Reader { text: self.text, table, line: 1, known: RefCell::default() }
    }

    /// The path of what an error on this line is about: the outermost value there whose key the message names, or else
    /// the outermost below `[stations]` and `[classes]`.
    pub(super) fn path_at(&self, line: usize, message: &str) -> Vec<Step> {
        let mut found = Vec::new();
        self.collect(self.table.get_ref(), line, &mut Vec::new(), &mut found);
        let named = |path: &&Vec<Step>| matches!(path.last(), Some(Step::Key(key)) if message.contains(&format!("`{key}`")));
        let below = |path: &&Vec<Step>| path.len() > 1;
        let chosen = found.iter().filter(below).find(named).or_else(|| found.iter().find(below));
        chosen.or_else(|| found.first()).cloned().unwrap_or_default()
    }

    /// The paths of all values that begin on a line, outer before inner.
    fn collect(&self, table: &DeTable<'_>, line: usize, path: &mut Vec<Step>, found: &mut Vec<Vec<Step>>) {
        for (key, value) in table.iter() {
            path.push(Step::Key(key.get_ref().to_string()));
            if line_at(self.text, key.span().start) == line {
                found.push(path.clone());
            }
            self.collect_within(value, line, path, found);
            path.pop();
        }
    }

    fn collect_within(
        &self,
        value: &Spanned<DeValue<'_>>,
        line: usize,
        path: &mut Vec<Step>,
        found: &mut Vec<Vec<Step>>,
    ) {
        if let Some(table) = value.get_ref().as_table() {
            self.collect(table, line, path, found);
        }
        for (place, item) in value.get_ref().as_array().into_iter().flat_map(|list| list.iter().enumerate()) {
            path.push(Step::Place(place));
            if line_at(self.text, item.span().start) == line {
                found.push(path.clone());
            }
            self.collect_within(item, line, path, found);
            path.pop();
        }
    }
}

fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// A table. [`Reader::finish`] refuses keys that were never read.
pub(super) struct Reader<'d> {
    text: &'d str,
    table: &'d DeTable<'d>,
    line: usize,
    /// Keys read so far; any other key is unknown.
    known: RefCell<BTreeSet<&'static str>>,
}

impl<'d> Reader<'d> {
    pub(super) fn error(&self, message: impl Into<String>) -> SystemFileError {
        SystemFileError { line: self.line, message: message.into() }
    }

    /// Counted from 1.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    pub(super) fn optional(&self, key: &'static str) -> Option<Value<'d>> {
        self.known.borrow_mut().insert(key);
        let value = self.table.get(key)?;
        Some(Value { text: self.text, key: key.to_owned(), value })
    }

    pub(super) fn required(&self, key: &'static str) -> Result<Value<'d>, SystemFileError> {
        self.optional(key).ok_or_else(|| match self.nearest_unread(key) {
            Some(near) => self.error(format!("`{key}` is missing; is `{near}` meant?")),
            None => self.error(format!("`{key}` is missing")),
        })
    }

    pub(super) fn text_or(&self, key: &'static str, default: &str) -> Result<String, SystemFileError> {
        self.optional(key).map_or_else(|| Ok(default.to_owned()), |value| Ok(value.text()?.to_owned()))
    }

    /// All entries, each a table, in the order of the file.
    pub(super) fn tables(&self) -> Result<Vec<(String, Reader<'d>)>, SystemFileError> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let read = |(key, value): (&Spanned<_>, &'d Spanned<DeValue<'d>>)| {
            let name: &std::borrow::Cow<'_, str> = key.get_ref();
            let value = Value { text: self.text, key: name.to_string(), value };
            let line = line_at(self.text, key.span().start);
            Ok((name.to_string(), Reader { line, ..value.table()? }))
        };
        entries.into_iter().map(read).collect()
    }

    /// All entries, in any order; reading them leaves no key unknown.
    pub(super) fn values(&self) -> impl Iterator<Item = (&'d str, Value<'d>)> + '_ {
        self.table.iter().map(|(key, value)| {
            let name: &'d str = key.get_ref();
            (name, Value { text: self.text, key: name.to_owned(), value })
        })
    }

    /// Refuses keys that were not read.
    pub(super) fn finish(&self) -> Result<(), SystemFileError> {
        let known = self.known.borrow();
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if !known.contains(name) {
                let line = line_at(self.text, key.span().start);
                let choices: Vec<&str> = known.iter().copied().collect();
                let message = format!("unknown key `{name}`; {}", suggestion(name, &choices));
                return Err(SystemFileError { line, message });
            }
        }
        Ok(())
    }

    fn nearest_unread(&self, key: &str) -> Option<String> {
        let known = self.known.borrow();
        let unread: Vec<&str> = self.table.keys().map(|k| k.get_ref().as_ref()).collect();
        let unread: Vec<&str> = unread.into_iter().filter(|name| !known.contains(name)).collect();
        nearest(key, &unread).map(str::to_owned)
    }
}

/// A value with its key and line.
#[derive(Clone)]
pub(super) struct Value<'d> {
    text: &'d str,
    pub(super) key: String,
    value: &'d Spanned<DeValue<'d>>,
}

impl<'d> Value<'d> {
    pub(super) fn error(&self, message: impl Into<String>) -> SystemFileError {
        SystemFileError { line: self.line(), message: message.into() }
    }

    fn line(&self) -> usize {
        line_at(self.text, self.value.span().start)
    }

    fn expected(&self, what: &str) -> SystemFileError {
        self.error(format!("`{}` must be {what}, not {}", self.key, self.value.get_ref().type_str()))
    }

    pub(super) fn is_number(&self) -> bool {
        self.value.get_ref().is_integer() || self.value.get_ref().is_float()
    }

    pub(super) fn is_text(&self) -> bool {
        self.value.get_ref().is_str()
    }

    pub(super) fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    pub(super) fn text(&self) -> Result<&'d str, SystemFileError> {
        self.value.get_ref().as_str().ok_or_else(|| self.expected("text"))
    }

    pub(super) fn table(&self) -> Result<Reader<'d>, SystemFileError> {
        let table = self.value.get_ref().as_table().ok_or_else(|| self.expected("a table"))?;
        Ok(Reader { text: self.text, table, line: self.line(), known: RefCell::default() })
    }

    pub(super) fn array(&self) -> Result<Vec<Value<'d>>, SystemFileError> {
        let array = self.value.get_ref().as_array().ok_or_else(|| self.expected("a list"))?;
        Ok(array.iter().map(|value| Value { text: self.text, key: self.key.clone(), value }).collect())
    }

    /// A number without a unit.
    pub(super) fn number(&self) -> Result<f64, SystemFileError> {
        let value = self.value.get_ref();
        let digits = match (value.as_integer(), value.as_float()) {
            (Some(integer), _) if integer.radix() == 10 => integer.as_str(),
            (_, Some(float)) => float.as_str(),
            _ => return Err(self.expected("a number")),
        };
        match digits.replace('_', "").parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(self.error(format!("`{}` must be a finite number, not {digits}", self.key))),
        }
    }

    pub(super) fn boolean(&self) -> Result<bool, SystemFileError> {
        self.value.get_ref().as_bool().ok_or_else(|| self.expected("`true` or `false`"))
    }

    /// A whole number in this range.
    pub(super) fn count(&self, from: u32, to: u32) -> Result<u32, SystemFileError> {
        let number = self.number()?;
        let within = number.fract() == 0.0 && (f64::from(from)..=f64::from(to)).contains(&number);
        if within {
            return Ok(number as u32);
        }
        Err(self.error(format!("`{}` must be a whole number from {from} to {to}, not {number}", self.key)))
    }

    pub(super) fn choice(&self, choices: &[&str]) -> Result<usize, SystemFileError> {
        let text = self.text()?;
        choices.iter().position(|choice| *choice == text).ok_or_else(|| {
            self.error(format!("`{}` cannot be \"{text}\"; {}", self.key, suggestion(text, choices)))
        })
    }
}

/// Suggests the nearest of `choices`; lists them all when none is near.
pub(super) fn suggestion(name: &str, choices: &[&str]) -> String {
    match nearest(name, choices) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known: {}", choices.join(", ")),
    }
}

pub(super) fn nearest<'a>(name: &str, choices: &[&'a str]) -> Option<&'a str> {
    let distance = |choice: &&str| edit_distance(&name.to_lowercase(), &choice.to_lowercase());
    let near = choices.iter().copied().min_by_key(distance)?;
    // With two thirds of the letters wrong it is a different word, not a typing error.
    let allowed = name.chars().count().max(near.chars().count()) / 3;
    (distance(&near) <= allowed.max(1)).then_some(near)
}

/// Insertions, deletions, replacements and swaps of neighbours (restricted Damerau-Levenshtein).
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    (0..=a.len()).for_each(|i| rows[i][0] = i);
    (0..=b.len()).for_each(|j| rows[0][j] = j);
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            rows[i][j] = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                rows[i][j] = rows[i][j].min(rows[i - 2][j - 2] + 1);
            }
        }
    }
    rows[a.len()][b.len()]
}
