//! The jobs in service by finish tag: a binary heap whose first element can be replaced.
//!
//! With the standard heap, a completion and the admission after it would sift twice. Tags are sums of non-negative
//! numbers, so a plain comparison orders them.

/// A job that finishes when the virtual time reaches its tag.
#[derive(Clone, Copy)]
pub(super) struct Tagged<T> {
    pub(super) tag: f64,
    pub(super) job: T,
}

/// The least tag is first.
pub(super) struct TagHeap<T>(Vec<Tagged<T>>);

impl<T: Copy> TagHeap<T> {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(super) fn first(&self) -> Option<&Tagged<T>> {
        self.0.first()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Tagged<T>> {
        self.0.iter()
    }

    #[inline]
    pub(super) fn push(&mut self, item: Tagged<T>) {
        let mut hole = self.0.len();
        self.0.push(item);
        let items = &mut self.0[..=hole];
        while hole > 0 {
            let parent = (hole - 1) / 2;
            if items[parent].tag <= item.tag {
                break;
            }
            items[hole] = items[parent];
            hole = parent;
        }
        items[hole] = item;
    }

    #[inline]
    pub(super) fn remove_first(&mut self) {
        if let Some(last) = self.0.pop()
            && !self.0.is_empty()
        {
            self.replace_first(last);
        }
    }

    /// Replaces the first element; the heap must not be empty.
    #[inline]
    pub(super) fn replace_first(&mut self, item: Tagged<T>) {
        let items = self.0.as_mut_slice();
        let mut hole = 0;
        loop {
            let mut child = 2 * hole + 1;
            if child >= items.len() {
                break;
            }
            if child + 1 < items.len() {
                // Which child is less is as good as random, so there is no branch to predict.
                child += usize::from(items[child + 1].tag < items[child].tag);
            }
            if items[child].tag >= item.tag {
                break;
            }
            items[hole] = items[child];
            hole = child;
        }
        items[hole] = item;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn comes_out_sorted(tags in proptest::collection::vec(0.0..9.0_f64, 1..60), others in proptest::collection::vec(0.0..9.0_f64, 0..60)) {
            let mut heap = TagHeap::new();
            tags.iter().for_each(|&tag| heap.push(Tagged { tag, job: () }));
            let mut kept = tags.clone();
            for &tag in &others {
                kept.sort_by(f64::total_cmp);
                proptest::prop_assert_eq!(heap.first().unwrap().tag, kept[0]);
                kept[0] = tag;
                heap.replace_first(Tagged { tag, job: () });
            }
            kept.sort_by(f64::total_cmp);
            for tag in kept {
                proptest::prop_assert_eq!(heap.first().unwrap().tag, tag);
                heap.remove_first();
            }
            proptest::prop_assert!(heap.len() == 0 && heap.first().is_none());
        }
    }
}
