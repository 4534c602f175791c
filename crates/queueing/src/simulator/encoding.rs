//! The state of replications as bytes, so that they can run in another process: little-endian, floats bit by bit.

/// A value that can be written, and read back as it was.
pub(super) trait Encoded: Sized {
    fn write(&self, out: &mut Vec<u8>);
    /// `None` if the bytes are not of such a value.
    fn read(bytes: &mut &[u8]) -> Option<Self>;
}

/// Implements [`Encoded`] for a struct, field by field.
macro_rules! encoded {
    ($name:ident { $($field:ident),+ $(,)? }) => {
        impl $crate::simulator::encoding::Encoded for $name {
            fn write(&self, out: &mut Vec<u8>) {
                $(self.$field.write(out);)+
            }

            fn read(bytes: &mut &[u8]) -> Option<Self> {
                $(let $field = $crate::simulator::encoding::Encoded::read(bytes)?;)+
                Some(Self { $($field),+ })
            }
        }
    };
}
pub(super) use encoded;

fn array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

impl Encoded for u32 {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        array(bytes).map(Self::from_le_bytes)
    }
}

impl Encoded for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        array(bytes).map(Self::from_le_bytes)
    }
}

impl Encoded for f64 {
    fn write(&self, out: &mut Vec<u8>) {
        self.to_bits().write(out);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        u64::read(bytes).map(Self::from_bits)
    }
}

impl Encoded for bool {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        match array(bytes)? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

impl<A: Encoded, B: Encoded> Encoded for (A, B) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        Some((A::read(bytes)?, B::read(bytes)?))
    }
}

impl<T: Encoded> Encoded for Vec<T> {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u64).write(out);
        self.iter().for_each(|each| each.write(out));
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let count = u64::read(bytes)?;
        // Each element has a byte or more, so a count that is made up takes no memory.
        (count <= bytes.len() as u64).then_some(())?;
        (0..count).map(|_| T::read(bytes)).collect()
    }
}
