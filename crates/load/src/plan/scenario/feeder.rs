//! The feeder file: a row of values per virtual user, as CSV (RFC 4180) whose first line names the variables.

/// The most rows and columns of a file.
pub const ROWS_MAX: usize = 1_000_000;
pub const COLUMNS_MAX: usize = 100;

/// Values of variables, one row per user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Feeder {
    pub columns: Vec<String>,
    /// Each has as many values as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Feeder {
    /// Parses a file; the error names the line.
    pub fn parse(text: &str) -> Result<Feeder, String> {
        let mut lines = Lines { rest: text.trim_start_matches('\u{feff}'), line: 1 };
        let columns = lines.next_row()?.ok_or("it is empty; its first line names the columns")?;
        let columns: Vec<String> = columns.iter().map(|name| name.trim().to_owned()).collect();
        if columns.len() > COLUMNS_MAX {
            return Err(format!("it has more than {COLUMNS_MAX} columns"));
        }
        let mut rows = Vec::new();
        loop {
            let line = lines.line;
            let Some(row) = lines.next_row()? else { break };
            if row.len() == 1 && row[0].is_empty() {
                continue;
            }
            if row.len() != columns.len() {
                return Err(format!("line {line} has {} values and not {}", row.len(), columns.len()));
            }
            rows.push(row);
            if rows.len() > ROWS_MAX {
                return Err(format!("it has more than {ROWS_MAX} rows"));
            }
        }
        if rows.is_empty() {
            Err("it has no rows below the column names".to_owned())
        } else {
            Ok(Feeder { columns, rows })
        }
    }

    /// The row of a user; after the last row it starts again.
    pub fn row(&self, user: u64) -> &[String] {
        match self.rows.len() {
            0 => &[],
            rows => &self.rows[(user % rows as u64) as usize],
        }
    }
}

struct Lines<'a> {
    rest: &'a str,
    line: usize,
}

impl Lines<'_> {
    fn next_row(&mut self) -> Result<Option<Vec<String>>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mut row = Vec::new();
        loop {
            row.push(self.value()?);
            match self.rest.as_bytes().first() {
                Some(b',') => self.rest = &self.rest[1..],
                _ => break,
            }
        }
        self.rest = self.rest.strip_prefix('\r').unwrap_or(self.rest);
        match self.rest.as_bytes().first() {
            None => {}
            Some(b'\n') => self.rest = &self.rest[1..],
            Some(_) => {
                return Err(format!(
                    "line {}: text follows the closing quotation mark of a value",
                    self.line
                ));
            }
        }
        self.line += 1;
        Ok(Some(row))
    }

    fn value(&mut self) -> Result<String, String> {
        let Some(quoted) = self.rest.strip_prefix('"') else {
            let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
            let (value, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Ok(value.strip_suffix('\r').unwrap_or(value).to_owned());
        };
        let (mut value, mut rest) = (String::new(), quoted);
        loop {
            let end = rest
                .find('"')
                .ok_or_else(|| format!("line {}: a quotation mark is not closed", self.line))?;
            value.push_str(&rest[..end]);
            rest = &rest[end + 1..];
            match rest.strip_prefix('"') {
                Some(after) => (value, rest) = (value + "\"", after),
                None => break,
            }
        }
        self.line += value.matches('\n').count();
        self.rest = rest;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_go_round() {
        let feeder = Feeder::parse("\u{feff}name, password\r\nann,\"a,\"\"b\"\"\nc\"\r\n\r\nbob,\n").unwrap();
        assert_eq!(feeder.columns, ["name", "password"]);
        assert_eq!(feeder.row(0), ["ann", "a,\"b\"\nc"]);
        assert_eq!(feeder.row(5), ["bob", ""]);
    }

    #[test]
    fn refusals_name_the_line() {
        let check = |text, expected: &str| {
            let refused = Feeder::parse(text).unwrap_err();
            assert!(refused.contains(expected), "{text:?}: {refused}");
        };
        check("", "empty");
        check("a,b\n", "no row");
        check("a,b\n1,2\n3\n", "line 3");
        check("a\n\"x\ny\"\n\"z", "line 4");
        check("a\n\"x\"y\n", "line 2");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(rows in prop::collection::vec(prop::collection::vec("\\PC{0,8}|[\",\n\r]{0,4}", 2), 1..5)) {
            let line = |row: &Vec<String>| row.iter().map(|value| format!("\"{}\"", value.replace('"', "\"\""))).collect::<Vec<_>>().join(",");
            let text = format!("a,b\n{}\n", rows.iter().map(line).collect::<Vec<_>>().join("\n"));
            prop_assert_eq!(Feeder::parse(&text).unwrap().rows, rows);
        }

        #[test]
        fn anything_is_read_or_refused(text in "[a\",\n\r ]{0,40}") {
            if let Ok(feeder) = Feeder::parse(&text) {
                prop_assert!(feeder.rows.iter().all(|row| row.len() == feeder.columns.len()));
            }
        }
    }
}
