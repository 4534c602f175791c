//! Why an answer was none, in words: what a person looks for first when a login fails.

use std::borrow::Cow;

use crate::{
    http::cause::Cause,
    plan::scenario::{
        Scenario,
        answer::{Answer, Check, Source},
        template::{Context, Template},
        user::User,
    },
};

/// The most characters quoted from a text.
const QUOTED_CHARACTERS_MAX: usize = 120;

impl User {
    /// Says what was asked, what came, and what of it is wrong.
    pub fn explanation(
        &mut self,
        scenario: &Scenario,
        request: u32,
        answer: &Answer<'_>,
        cause: Cause,
    ) -> String {
        let asked = self.last_request();
        let request = &scenario.requests[request as usize];
        let mut context = self.context();
        let wrong = match cause {
            Cause::CheckFailed => {
                let mut failed =
                    request.checks.iter().filter(|check| check.holds(answer, &mut context) != Ok(true));
                failed.next().map(|check| check.explained(&mut self.context()))
            }
            Cause::ValueMissing => {
                let missing = request.takes.iter().find(|take| take.value(answer, self.jar()).is_none());
                missing.map(|take| format!("{} is missing, so nothing can be taken", take.source.explained()))
            }
            Cause::BodyEncoded => answer.content_coding().map(|coding| {
                let coding = quoted(coding);
                format!("the body is encoded ({coding}), so it cannot be checked; do not ask for that by Accept-Encoding")
            }),
            Cause::TooManyRedirects => Some("too many redirects".to_owned()),
            Cause::RedirectElsewhere => {
                Some("the redirect goes to another server, port or scheme".to_owned())
            }
            _ => None,
        };
        let location = answer.fields("location").next().map(|to| format!(", Location: {}", quoted(to)));
        let title = title(answer.body).map(|title| format!(", page {:?}", quoted(title)));
        let wrong = wrong.map(|wrong| format!("; {wrong}"));
        let parts = [location, title, wrong].map(Option::unwrap_or_default).concat();
        format!("{asked} was answered {}{parts}", status_line(answer))
    }
}

impl Check {
    fn explained(&self, context: &mut Context<'_>) -> String {
        let mut text = |template: &Template| {
            let mut filled = Vec::new();
            let rendered = template.render(&mut filled, context);
            rendered.map_or("a value that is not defined".to_owned(), |()| format!("{:?}", quoted(&filled)))
        };
        match self {
            Check::Contains(wanted) => format!("the body does not contain {}", text(wanted)),
            Check::Lacks(unwanted) => format!("the body contains {}", text(unwanted)),
            Check::Matches(pattern) => format!("the body does not match {:?}", pattern.as_str()),
            Check::Pointer(pointer, wanted) => format!("{pointer} of the JSON is not {}", text(wanted)),
            Check::Header(name, wanted) => format!("the field {name} is not {}", text(wanted)),
        }
    }
}

impl Source {
    fn explained(&self) -> String {
        match self {
            Source::Regex(pattern) => format!("what {:?} matches", pattern.as_str()),
            Source::Pointer(pointer) => format!("{pointer} of the JSON"),
            Source::Header(name) => format!("the field {name}"),
            Source::Cookie(name) => format!("the cookie {name}"),
            Source::Input(name) => format!("the form field {name:?}"),
        }
    }
}

fn status_line<'a>(answer: &Answer<'a>) -> Cow<'a, str> {
    let line = answer.head.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
    match line.iter().position(|byte| *byte == b' ') {
        Some(blank) => String::from_utf8_lossy(&line[blank + 1..]),
        None => Cow::Owned(answer.status.to_string()),
    }
}

/// The title of an HTML page.
fn title(body: &[u8]) -> Option<&[u8]> {
    let begin = body.windows(7).position(|window| window.eq_ignore_ascii_case(b"<title>"))? + 7;
    let end = body[begin..].iter().position(|byte| *byte == b'<')?;
    Some(body[begin..begin + end].trim_ascii())
}

fn quoted(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut shown: String = text.chars().take(QUOTED_CHARACTERS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
