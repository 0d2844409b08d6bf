//! The partitioner of keyed records, byte for byte that of Kafka's Java client (decision D7).

use crate::ids::PartitionIndex;

/// The 32-bit murmur2 hash with Kafka's seed.
#[must_use]
pub fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    // A key is at most 2.5 MiB, and the algorithm defines the length as 32 bits.
    #[allow(clippy::cast_possible_truncation)]
    let mut hash = SEED ^ data.len() as u32;
    let mut chunks = data.chunks_exact(4);
    for chunk in &mut chunks {
        let mut word = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        word = word.wrapping_mul(M);
        word ^= word >> R;
        word = word.wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ word;
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate().rev() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// The partition of a keyed record: `(murmur2(key) & 0x7fffffff) % partitions`.
///
/// `partitions` must be above 0; a topic always has at least one.
#[must_use]
pub fn partition_for_key(key: &[u8], partitions: u32) -> PartitionIndex {
    PartitionIndex::new((murmur2(key) & 0x7fff_ffff) % partitions.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of Apache Kafka's own `UtilsTest.testMurmur2`.
    #[test]
    fn agrees_with_kafkas_vectors() {
        let vectors: [(&str, i32); 7] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
            ("", 275_646_681),
        ];
        for (text, expected) in vectors {
            assert_eq!(murmur2(text.as_bytes()), expected.cast_unsigned(), "{text:?}");
        }
    }

    #[test]
    fn the_documented_example_holds() {
        assert_eq!(partition_for_key(b"u1", 3), PartitionIndex::new(1));
    }
}
