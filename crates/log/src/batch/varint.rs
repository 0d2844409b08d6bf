//! LEB128 varints, and zigzag for signed numbers.

/// Most bytes of a varint.
const VARINT_BYTES_MAX: usize = 10;

/// A varint on the stack, ready to be copied behind others.
pub(super) struct VarintBuffer<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> VarintBuffer<N> {
    pub(super) const fn new() -> Self {
        VarintBuffer { bytes: [0; N], length: 0 }
    }

    /// Appends one byte; the caller chose `N` so that all fits.
    pub(super) fn push_byte(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    /// Appends a varint; the caller chose `N` so that all fits.
    pub(super) fn push(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push_byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.push_byte(value as u8);
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Bytes that the varint of a value has.
pub(super) const fn varint_bytes(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Small magnitudes of either sign become small numbers.
pub(super) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// The inverse of [`zigzag`].
pub(super) const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

/// Reads bytes from front to back; every method gives nothing when the bytes end or are malformed.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8], position: usize) -> Self {
        Reader { bytes, position }
    }

    pub(super) const fn position(&self) -> usize {
        self.position
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.position)?;
        self.position += 1;
        Some(byte)
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let first = self.byte()?;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        for index in 1..VARINT_BYTES_MAX {
            let byte = self.byte()?;
            if index == VARINT_BYTES_MAX - 1 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A varint that must fit a length in memory.
    pub(super) fn length(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }

    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.position.checked_add(length)?;
        let slice = self.bytes.get(self.position..end)?;
        self.position = end;
        Some(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip(value: u64) {
            let mut buffer = VarintBuffer::<VARINT_BYTES_MAX>::new();
            buffer.push(value);
            prop_assert_eq!(buffer.as_slice().len(), varint_bytes(value));
            let mut reader = Reader::new(buffer.as_slice(), 0);
            prop_assert_eq!(reader.varint(), Some(value));
            prop_assert_eq!(reader.position(), buffer.as_slice().len());
        }

        #[test]
        fn zigzag_round_trips(value: i64) {
            prop_assert_eq!(unzigzag(zigzag(value)), value);
        }
    }

    #[test]
    fn varints_beyond_64_bits_are_refused() {
        assert_eq!(Reader::new(&[0xff; 10], 0).varint(), None);
        assert_eq!(Reader::new(&[0x80; 20], 0).varint(), None);
        assert_eq!(Reader::new(&[0x80], 0).varint(), None);
    }
}
