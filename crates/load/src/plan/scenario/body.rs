//! Request bodies: text, forms, JSON, or multipart with files, as one template with its media type.

use std::collections::BTreeMap;

use crate::plan::scenario::{
    compile::Compiler,
    file::{PartTable, RequestTable, Scalar},
    template::{Place, Template},
};

/// The boundary between parts; no real text contains it.
const BOUNDARY: &str = "----sojourn-7d1f0b5c9a3e46428f6b";

#[derive(Debug)]
pub struct Body {
    pub media_type: Option<String>,
    pub template: Template,
}

impl Compiler<'_> {
    pub(super) fn body(&mut self, table: &RequestTable) -> Result<Option<Body>, String> {
        let kinds = [
            table.form.is_some(),
            table.json.is_some(),
            table.body.is_some(),
            table.body_file.is_some(),
            table.multipart.is_some(),
        ];
        if kinds.into_iter().filter(|given| *given).count() > 1 {
            return Err("it has more than one of form, json, body, body_file and multipart".to_owned());
        }
        let (media_type, template) = if let Some(form) = &table.form {
            (Some("application/x-www-form-urlencoded".to_owned()), self.form(form)?)
        } else if let Some(json) = &table.json {
            let mut template = Template::default();
            self.json(json, &mut template)?;
            (Some("application/json".to_owned()), template)
        } else if let Some(text) = &table.body {
            (None, self.template(text, Place::Body)?)
        } else if let Some(file) = &table.body_file {
            let mut template = Template::default();
            template.push_bytes(&self.read(file)?);
            (None, template)
        } else if let Some(parts) = &table.multipart {
            (Some(format!("multipart/form-data; boundary={BOUNDARY}")), self.multipart(parts)?)
        } else {
            return Ok(None);
        };
        Ok(Some(Body { media_type, template }))
    }

    fn form(&mut self, fields: &BTreeMap<String, Scalar>) -> Result<Template, String> {
        let mut template = Template::default();
        for (number, (name, value)) in fields.iter().enumerate() {
            if number > 0 {
                template.push_bytes(b"&");
            }
            template.append(self.template(name, Place::Form)?);
            template.push_bytes(b"=");
            template.append(self.template(&value.text(), Place::Form)?);
        }
        Ok(template)
    }

    fn json(&mut self, value: &toml::Value, template: &mut Template) -> Result<(), String> {
        match value {
            toml::Value::String(text) => {
                let text = self.template(text, Place::Json)?;
                let quote: &[u8] = if text.is_raw_value() { b"" } else { b"\"" };
                template.push_bytes(quote);
                template.append(text);
                template.push_bytes(quote);
            }
            toml::Value::Array(values) => {
                for (number, value) in values.iter().enumerate() {
                    template.push_bytes(if number == 0 { b"[" } else { b"," });
                    self.json(value, template)?;
                }
                template.push_bytes(if values.is_empty() { b"[]" } else { b"]" });
            }
            toml::Value::Table(fields) => {
                for (number, (name, value)) in fields.iter().enumerate() {
                    template.push_bytes(if number == 0 { b"{\"" } else { b",\"" });
                    template.append(self.template(name, Place::Json)?);
                    template.push_bytes(b"\":");
                    self.json(value, template)?;
                }
                template.push_bytes(if fields.is_empty() { b"{}" } else { b"}" });
            }
            toml::Value::Datetime(time) => template.push_bytes(format!("\"{time}\"").as_bytes()),
            toml::Value::Float(number) if !number.is_finite() => {
                return Err(format!("JSON has no number {number}"));
            }
            other => template.push_bytes(other.to_string().as_bytes()),
        }
        Ok(())
    }

    /// RFC 7578.
    fn multipart(&mut self, parts: &[PartTable]) -> Result<Template, String> {
        let mut template = Template::default();
        for part in parts {
            let mut head =
                format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{}\"", quoted(&part.name));
            let filename = part.filename.as_deref().or(part.file.as_deref().map(last_name));
            if let Some(filename) = filename {
                head += &format!("; filename=\"{}\"", quoted(filename));
            }
            let of_file = part.file.as_ref().map(|_| "application/octet-stream");
            if let Some(media_type) = part.media_type.as_deref().or(of_file) {
                if media_type.contains(['\r', '\n']) {
                    return Err(format!("{media_type:?} is not a media type"));
                }
                head += &format!("\r\nContent-Type: {media_type}");
            }
            template.push_bytes(head.as_bytes());
            template.push_bytes(b"\r\n\r\n");
            match (&part.value, &part.file) {
                (Some(value), None) => template.append(self.template(value, Place::Body)?),
                (None, Some(file)) => template.push_bytes(&self.read(file)?),
                _ => return Err(format!("part {:?} needs either a value or a file", part.name)),
            }
            template.push_bytes(b"\r\n");
        }
        template.push_bytes(format!("--{BOUNDARY}--\r\n").as_bytes());
        Ok(template)
    }
}

/// Quoted as browsers do it (the URL standard's multipart/form-data encoding).
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
