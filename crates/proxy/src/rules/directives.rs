//! The grammar of Cache-Control (RFC 9111, 5.2): directives with their arguments, in order.

/// One directive as it stands in a field: its name in any case, and its argument without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive<'a> {
    /// The name, as received.
    pub name: &'a str,
    /// What follows `=`, the quotes and escapes removed; `None` without one.
    pub argument: Option<std::borrow::Cow<'a, str>>,
}
