//! The machine alone: events by hand, wants looked at.
