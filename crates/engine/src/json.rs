//! Results as JSON. Every writer is a `dyn Write`: what writes a type is generic, and so compiled once.

use std::io::{self, Write};

use serde::Serialize;

/// Writes a value without a line's end.
pub fn write(output: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    Ok(serde_json::to_writer(output, value)?)
}

/// Writes a value as one line.
pub fn write_line(output: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write(output, value)?;
    writeln!(output)
}

/// Writes a value on many lines, indented, for people.
pub fn write_indented(output: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    Ok(serde_json::to_writer_pretty(output, value)?)
}

/// Writes a value as one line of standard error, at once, so that lines of several processes do not mix.
pub fn tell(value: &impl Serialize) {
    let mut line = Vec::new();
    if write_line(&mut line, value).is_ok() {
        let _ = io::stderr().write_all(&line);
    }
}
