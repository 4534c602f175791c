//! The metadata stored beside a body: what decides about later requests, and the fields of the response.
//!
//! A hit reads it from the stored bytes without a copy: a fixed part with the numbers, then four texts. The store
//! treats it as opaque bytes and protects them with checksums. [`Metadata::read`] accepts only what [`Metadata::write`]
//! can have written.

use sojourn_http::HttpDate;

use super::directives::DELTA_SECONDS_MAX;
use super::freshness::seconds;

/// The version of the layout. Objects of other versions are fetched again.
pub const FORMAT_VERSION: u8 = 1;

const FIXED_BYTES: usize = 60;

const HAS_LAST_MODIFIED: u8 = 1;
const NO_CACHE: u8 = 2;
const FORBIDS_STALE: u8 = 4;
const IS_HEURISTIC: u8 = 8;
const FLAGS: u8 = 15;

/// One stored response without its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metadata<'b> {
    pub status: u16,
    /// When the response arrived or was last validated, in seconds since 1970.
    pub response_time: i64,
    /// Its Date, or its arrival without one. Of several matching variants the latest is used.
    pub date: i64,
    pub last_modified: Option<i64>,
    /// Its age on arrival (RFC 9111, 4.2.3).
    pub initial_age: u32,
    /// Freshness lifetime in seconds, counted from when it was generated.
    pub lifetime: u32,
    /// Seconds for which it may be used stale while it is revalidated (RFC 5861, 3).
    pub stale_while_revalidate: u32,
    /// Seconds for which it may be used stale if the origin fails (RFC 5861, 4).
    pub stale_if_error: u32,
    /// True if every use needs revalidation.
    pub no_cache: bool,
    /// True if it must not be used stale, even where clients allow it.
    pub forbids_stale: bool,
    /// True if the lifetime is heuristic.
    pub is_heuristic: bool,
    /// The entity tag, quotes included; empty if there is no valid one.
    pub entity_tag: &'b [u8],
    /// The names in its Vary field; see [`super::vary::Vary::as_str`].
    pub vary: &'b str,
    /// The secondary key of the request that fetched it.
    pub secondary_key: &'b [u8],
    /// The stored field lines: all but Age, Content-Length and those of a single connection.
    pub fields: &'b [u8],
}

/// Why bytes are not metadata of a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    #[error("the metadata of a stored response has another format: its object is to be fetched again")]
    Version,
    /// Inconsistent lengths or impossible values.
    #[error("the metadata of a stored response is damaged: its object is to be fetched again")]
    Damaged,
}

/// A clock that is corrected by so little makes no response old.
const SET_BACK_SECONDS_MAX: i64 = 10;

impl<'b> Metadata<'b> {
    /// The age in seconds at `now` (RFC 9111, 4.2.3); never less than on arrival. If the clock was set back since, nobody
    /// knows the age, and the response would seem fresh until the clock is where it was: it counts as old.
    pub fn age(&self, now: i64) -> u32 {
        if now < self.response_time.saturating_sub(SET_BACK_SECONDS_MAX) {
            return DELTA_SECONDS_MAX;
        }
        self.initial_age.saturating_add(seconds(self.response_time, now)).min(DELTA_SECONDS_MAX)
    }

    /// Remaining freshness lifetime in seconds, negative if stale: the `ttl` of RFC 9211.
    pub fn freshness(&self, now: i64) -> i64 {
        i64::from(self.lifetime) - i64::from(self.age(now))
    }

    /// Returns true if it may answer at `now`, without revalidation, requests that were coalesced with the one that fetched or
    /// revalidated it (RFC 9111, 4, 5.2.2.2 and 5.2.2.4).
    pub fn may_be_shared(&self, now: i64) -> bool {
        !(self.no_cache || self.forbids_stale && self.freshness(now) <= 0)
    }

    /// The first second in which it is stale.
    pub fn expires_at(&self) -> i64 {
        self.response_time + i64::from(self.lifetime) - i64::from(self.initial_age)
    }

    /// When it stops being usable in any way, so that a store may drop it. `None` with a validator: it can always be
    /// revalidated.
    pub fn useful_until(&self) -> Option<i64> {
        let stale = if self.forbids_stale { 0 } else { self.stale_while_revalidate.max(self.stale_if_error) };
        (!self.has_validator()).then(|| self.expires_at() + i64::from(stale))
    }

    /// Returns true if it can be revalidated: it has an entity tag or a modification date.
    pub fn has_validator(&self) -> bool {
        !self.entity_tag.is_empty() || self.last_modified.is_some()
    }

    pub fn write(&self) -> Box<[u8]> {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.last_modified.is_some(), HAS_LAST_MODIFIED)
            | flag(self.no_cache, NO_CACHE)
            | flag(self.forbids_stale, FORBIDS_STALE)
            | flag(self.is_heuristic, IS_HEURISTIC);
        let texts = [self.entity_tag, self.vary.as_bytes(), self.secondary_key, self.fields];
        let mut bytes = Vec::with_capacity(FIXED_BYTES + texts.iter().map(|text| text.len()).sum::<usize>());
        bytes.extend([FORMAT_VERSION, flags]);
        bytes.extend(self.status.to_le_bytes());
        for moment in [self.response_time, self.date, self.last_modified.unwrap_or(0)] {
            bytes.extend(moment.to_le_bytes());
        }
        for number in [self.initial_age, self.lifetime, self.stale_while_revalidate, self.stale_if_error] {
            bytes.extend(number.to_le_bytes());
        }
        for text in texts {
            let length = u32::try_from(text.len()).expect("a head is shorter than 4 GiB");
            bytes.extend(length.to_le_bytes());
        }
        texts.iter().for_each(|text| bytes.extend_from_slice(text));
        bytes.into_boxed_slice()
    }

    pub fn read(bytes: &'b [u8]) -> Result<Metadata<'b>, MetadataError> {
        if bytes.first().is_some_and(|version| *version != FORMAT_VERSION) {
            return Err(MetadataError::Version);
        }
        let metadata = Metadata::take(bytes).ok_or(MetadataError::Damaged)?;
        let is_moment = |moment: i64| HttpDate::from_seconds(moment).seconds() as i64 == moment;
        let moments = [metadata.response_time, metadata.date, metadata.last_modified.unwrap_or(0)];
        let spans = [
            metadata.initial_age,
            metadata.lifetime,
            metadata.stale_while_revalidate,
            metadata.stale_if_error,
        ];
        let is_sound = (100..1000).contains(&metadata.status)
            && moments.into_iter().all(is_moment)
            && spans.into_iter().all(|span| span <= DELTA_SECONDS_MAX)
            && (metadata.fields.is_empty() || metadata.fields.ends_with(b"\r\n"));
        is_sound.then_some(metadata).ok_or(MetadataError::Damaged)
    }

    fn take(bytes: &'b [u8]) -> Option<Metadata<'b>> {
        let (fixed, mut texts) = bytes.split_at_checked(FIXED_BYTES)?;
        let flags = fixed[1];
        let long = |at: usize| fixed[at..].first_chunk().map(|number| i64::from_le_bytes(*number));
        let short = |at: usize| fixed[at..].first_chunk().map(|number| u32::from_le_bytes(*number));
        let mut text = |at: usize| {
            let (text, rest) = texts.split_at_checked(short(at)? as usize)?;
            texts = rest;
            Some(text)
        };
        let (entity_tag, vary) = (text(44)?, text(48)?);
        let (secondary_key, fields) = (text(52)?, text(56)?);
        let has_last_modified = flags & HAS_LAST_MODIFIED != 0;
        (flags & !FLAGS == 0 && texts.is_empty()).then_some(Metadata {
            status: u16::from_le_bytes([fixed[2], fixed[3]]),
            response_time: long(4)?,
            date: long(12)?,
            last_modified: if has_last_modified { Some(long(20)?) } else { None },
            initial_age: short(28)?,
            lifetime: short(32)?,
            stale_while_revalidate: short(36)?,
            stale_if_error: short(40)?,
            no_cache: flags & NO_CACHE != 0,
            forbids_stale: flags & FORBIDS_STALE != 0,
            is_heuristic: flags & IS_HEURISTIC != 0,
            entity_tag,
            vary: std::str::from_utf8(vary).ok()?,
            secondary_key,
            fields,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain() -> Metadata<'static> {
        Metadata {
            status: 200,
            response_time: 1000,
            date: 990,
            last_modified: Some(5),
            initial_age: 10,
            lifetime: 60,
            stale_while_revalidate: 0,
            stale_if_error: 0,
            no_cache: false,
            forbids_stale: true,
            is_heuristic: false,
            entity_tag: b"\"x\"",
            vary: "accept",
            secondary_key: b"accept:*/*\n",
            fields: b"ETag: \"x\"\r\n",
        }
    }

    #[test]
    fn time() {
        let stored = plain();
        assert_eq!((stored.age(1000), stored.age(1049), stored.expires_at()), (10, 59, 1050));
        assert_eq!((stored.freshness(1049), stored.freshness(1050), stored.freshness(1051)), (1, 0, -1));
        assert_eq!((stored.age(999), stored.age(990)), (10, 10), "a clock that is corrected");
        assert_eq!(
            (stored.age(989), stored.age(0)),
            (DELTA_SECONDS_MAX, DELTA_SECONDS_MAX),
            "one that was set back"
        );
        assert_eq!(stored.age(i64::MAX), DELTA_SECONDS_MAX);
        assert_eq!(stored.useful_until(), None);
        let bare = Metadata { entity_tag: b"", last_modified: None, stale_if_error: 9, ..stored };
        assert_eq!(bare.useful_until(), Some(1050));
        assert_eq!(Metadata { forbids_stale: false, ..bare }.useful_until(), Some(1059));
    }

    #[test]
    fn whether_coalesced_requests_share_it() {
        let may_stale = Metadata { forbids_stale: false, ..plain() };
        for (stored, until_stale, when_stale) in [
            (plain(), true, false),
            (may_stale, true, true),
            (Metadata { no_cache: true, ..may_stale }, false, false),
        ] {
            assert_eq!(stored.may_be_shared(1049), until_stale, "{stored:?}");
            assert_eq!(stored.may_be_shared(1050), when_stale, "{stored:?}");
        }
        assert!(!Metadata { lifetime: 0, ..plain() }.may_be_shared(1000), "stale on arrival");
    }

    #[test]
    fn what_is_refused() {
        let bytes = plain().write();
        assert_eq!(Metadata::read(&bytes), Ok(plain()));
        for end in 0..bytes.len() {
            assert_eq!(Metadata::read(&bytes[..end]), Err(MetadataError::Damaged), "cut at {end}");
        }
        let changed = |at: usize, byte: u8| {
            let mut bytes = bytes.to_vec();
            bytes[at] = byte;
            Metadata::read(&bytes).map(|_| ())
        };
        assert_eq!(changed(0, FORMAT_VERSION + 1), Err(MetadataError::Version));
        for (at, byte) in [(1, 16), (3, 9), (11, 0x80), (31, 0xff), (44, 4), (bytes.len() - 1, b'x')] {
            assert_eq!(changed(at, byte), Err(MetadataError::Damaged), "{at}");
        }
        let longer = [&bytes, b"x".as_slice()].concat();
        assert_eq!(Metadata::read(&longer), Err(MetadataError::Damaged));
    }

    proptest! {
        #[test]
        fn there_and_back(
            status in 100_u16..1000,
            moments in proptest::array::uniform3(0_i64..253_402_300_800),
            spans in proptest::array::uniform4(0..=DELTA_SECONDS_MAX),
            flags in proptest::array::uniform4(any::<bool>()),
            texts in proptest::array::uniform3(proptest::collection::vec(any::<u8>(), 0..40)),
            vary in "[a-z,-]{0,20}",
        ) {
            let fields = [texts[2].as_slice(), b"\r\n"].concat();
            let metadata = Metadata {
                status,
                response_time: moments[0],
                date: moments[1],
                last_modified: flags[0].then_some(moments[2]),
                initial_age: spans[0],
                lifetime: spans[1],
                stale_while_revalidate: spans[2],
                stale_if_error: spans[3],
                no_cache: flags[1],
                forbids_stale: flags[2],
                is_heuristic: flags[3],
                entity_tag: &texts[0],
                vary: &vary,
                secondary_key: &texts[1],
                fields: &fields,
            };
            let bytes = metadata.write();
            prop_assert_eq!(Metadata::read(&bytes), Ok(metadata));
        }

        #[test]
        fn time_only_ages(now in 990..i64::MAX, later in 0_i64..1 << 40) {
            let stored = plain();
            let then = now.saturating_add(later);
            prop_assert!(stored.age(now) <= stored.age(then));
            prop_assert!(stored.freshness(now) >= stored.freshness(then));
            prop_assert_eq!(stored.freshness(now) > 0, now < stored.expires_at());
        }
    }
}
