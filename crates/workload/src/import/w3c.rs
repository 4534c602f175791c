//! W3C Extended Log File Format: directives in the log name its columns, and may change them.
//!
//! `#Fields:` names the columns; IIS repeats it at every start, possibly with others. Columns are separated by blanks
//! (IIS) or tabs (CloudFront). Times are UTC; servers write a line when the request has ended.

use super::entry::Malformed;
use super::fields::{Draft, Field, Time};
use super::template::Template;

/// The columns of the following lines.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    template: Option<Template>,
    /// The last `#Date`, for logs whose lines have only a time of day.
    date: Option<Vec<u8>>,
}

impl Columns {
    /// Applies a directive, a line that starts with `#`.
    pub fn directive(&mut self, line: &[u8]) -> Result<(), Malformed> {
        if let Some(names) = line.strip_prefix(b"#Fields:") {
            let names = names.split(u8::is_ascii_whitespace).filter(|name| !name.is_empty());
            let template = Template::columns(names.map(field));
            self.template = None;
            let has = |wanted: fn(&Field) -> bool| template.fields().any(|field| wanted(&field));
            let dated = has(|field| *field == Field::Time(Time::Date)) || self.date.is_some();
            if !dated
                || !has(|field| *field == Field::Time(Time::Clock))
                || !has(|field| *field == Field::Status)
                || !has(|field| matches!(field, Field::Path | Field::Target))
            {
                return Err(Malformed::BadFields);
            }
            self.template = Some(template);
        } else if let Some(date) = line.strip_prefix(b"#Date:") {
            let date = date.trim_ascii();
            self.date = date.get(..10).map(<[u8]>::to_vec);
        }
        Ok(())
    }

    /// Parses a line into a draft.
    pub fn fill<'a>(&self, draft: &mut Draft<'a>, line: &'a [u8]) -> Result<(), Malformed> {
        let template = self.template.as_ref().ok_or(Malformed::BeforeFields)?;
        template.fill(draft, line)?;
        if let Some(date) = &self.date
            && template.fields().all(|field| field != Field::Time(Time::Date))
        {
            draft.set(Field::Time(Time::Date), date.clone().into())?;
        }
        Ok(())
    }
}

fn field(name: &[u8]) -> Field {
    match name {
        b"date" => Field::Time(Time::Date),
        b"time" => Field::Time(Time::Clock),
        b"c-ip" => Field::Client,
        b"x-forwarded-for" | b"cs(X-Forwarded-For)" => Field::ForwardedFor,
        // CloudFront's cs(Host) is its own domain name; x-host-header holds the host that the client requested.
        b"x-host-header" => Field::Host,
        b"cs-host" | b"cs(Host)" => Field::ServerName,
        b"cs-method" => Field::Method,
        b"cs-uri" => Field::Target,
        b"cs-uri-stem" => Field::Path,
        b"cs-uri-query" => Field::Query,
        b"sc-status" => Field::Status,
        b"sc-bytes" => Field::SizeWithHead,
        b"sc-content-len" => Field::ContentLength,
        b"time-taken" => Field::TimeTaken,
        _ => Field::Ignored,
    }
}
