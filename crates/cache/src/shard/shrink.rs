//! A shard that most of its values have left gives back the room of their bookkeeping.

use super::{Group, Key, Links, List, SLOTS_MIN, Shard, Stage};

/// With so many slots for each value there are too many.
const SPARSE: usize = 8;

impl<K: Key, V> Shard<K, V> {
    /// Gives back what is much more than values here need. It costs as much as there was; keys that left are forgotten then.
    pub(crate) fn shrink(&mut self) {
        if self.slots.len() > SLOTS_MIN.max(SPARSE * self.len) {
            self.renumber();
            self.resize((2 * self.len).next_power_of_two().max(SLOTS_MIN));
        }
    }

    /// Values get numbers from 0 on, in the order of their queues.
    fn renumber(&mut self) {
        let mut new_numbers = vec![0; self.members.len()];
        let (mut members, mut queued) = (Vec::with_capacity(self.len), Links::default());
        for class in [&mut self.usual, &mut self.low] {
            for stage in [Stage::Probation, Stage::Main] {
                let list = &mut class.queue(stage).list;
                let mut next = std::mem::replace(list, List::EMPTY).first();
                while let Some(old) = next {
                    let new = members.len() as u32;
                    new_numbers[old as usize] = new;
                    members.push(self.members[old as usize]);
                    queued.push(list, new);
                    next = self.queued.behind(old);
                }
            }
        }
        let mut grouped = Links::default();
        for Group { list, .. } in self.groups.values_mut() {
            let mut next = std::mem::replace(list, List::EMPTY).first();
            while let Some(old) = next {
                grouped.push(list, new_numbers[old as usize]);
                next = self.grouped.behind(old);
            }
        }
        for slot in self.slots.iter_mut().flatten() {
            slot.number = new_numbers[slot.number as usize];
        }
        self.groups.shrink_to_fit();
        (self.members, self.queued, self.grouped) = (members, queued, grouped);
        self.vacant = Vec::new();
    }

    /// Slots, and numbers that values have or had.
    #[cfg(test)]
    pub(crate) fn room(&self) -> (usize, usize) {
        (self.slots.len(), self.members.len())
    }
}
