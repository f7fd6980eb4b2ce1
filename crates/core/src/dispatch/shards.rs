//! A set of shards. Every entity is in one of 256 shards; each shard has one owner at a time, which
//! delivers the messages to its entities.

use steadfast_store::EntityId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShardSet([u128; 2]);

impl ShardSet {
    pub(crate) const NONE: Self = Self([0; 2]);
    /// The set of a single node.
    pub(crate) const ALL: Self = Self([u128::MAX; 2]);

    /// Whether the shard of an entity is in the set.
    pub(crate) fn has(self, entity: EntityId) -> bool {
        let shard = entity.shard();
        let half = if shard < 128 { self.0[0] } else { self.0[1] };
        half >> (shard % 128) & 1 == 1
    }

    pub(crate) fn is_subset_of(self, other: Self) -> bool {
        (0..2).all(|it| self.0[it] & !other.0[it] == 0)
    }
}

#[cfg(test)]
impl FromIterator<u8> for ShardSet {
    fn from_iter<T: IntoIterator<Item = u8>>(shards: T) -> Self {
        let mut set = Self::NONE;
        shards.into_iter().for_each(|it| set.0[usize::from(it / 128)] |= 1 << (it % 128));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_its_shards_and_no_others() {
        let chosen = [0, 1, 127, 128, 200, 255];
        let set: ShardSet = chosen.into_iter().collect();
        for shard in 0..=255 {
            let entity = EntityId([shard; 16]);
            assert_eq!(set.has(entity), chosen.contains(&shard), "shard {shard}");
            assert!(ShardSet::ALL.has(entity) && !ShardSet::NONE.has(entity));
        }
        assert!(set.is_subset_of(set) && set.is_subset_of(ShardSet::ALL));
        assert!(!ShardSet::ALL.is_subset_of(set) && !set.is_subset_of(ShardSet::NONE));
    }
}
