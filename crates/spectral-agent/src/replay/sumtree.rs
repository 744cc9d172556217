//! Priorities in a binary tree of sums: draw in proportion, change one, both in logarithmic time.

/// A tree of sums over a fixed number of leaves.
///
/// Every inner node is always computed as left + right, never by adding differences, so a tree rebuilt from its leaves
/// is bit-identical to the one that grew.
///
/// ```
/// use spectral_agent::replay::SumTree;
/// let mut tree = SumTree::new(4);
/// tree.set(1, 3.0);
/// tree.set(2, 1.0);
/// assert_eq!(tree.total(), 4.0);
/// assert_eq!((tree.find(2.9), tree.find(3.1)), (1, 2));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SumTree {
    leaves: usize,
    nodes: Vec<f64>,
}

impl SumTree {
    /// All leaves at zero.
    pub fn new(leaves: usize) -> Self {
        let leaves = leaves.next_power_of_two();
        SumTree { leaves, nodes: vec![0.0; 2 * leaves] }
    }

    /// A tree with these leaves, and zeros up to so many.
    pub fn of(mut values: Vec<f64>, leaves: usize) -> Self {
        let leaves = leaves.max(values.len()).next_power_of_two();
        values.resize(leaves, 0.0);
        let mut nodes = vec![0.0; leaves];
        nodes.append(&mut values);
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node] + nodes[2 * node + 1];
        }
        SumTree { leaves, nodes }
    }

    /// All nodes: the first is not used, the second is the sum of all, and the children of node n are 2n and 2n + 1.
    pub fn nodes(&self) -> &[f64] {
        &self.nodes
    }

    /// The sum of all leaves.
    pub fn total(&self) -> f64 {
        self.nodes[1]
    }

    /// One leaf.
    pub fn get(&self, leaf: usize) -> f64 {
        self.nodes[self.leaves + leaf]
    }

    /// Changes one leaf.
    pub fn set(&mut self, leaf: usize, value: f64) {
        let mut node = self.leaves + leaf;
        self.nodes[node] = value;
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node] + self.nodes[2 * node + 1];
        }
    }

    /// The leaf in which the running sum passes `mass`, for `mass` in [0, total).
    pub fn find(&self, mut mass: f64) -> usize {
        let mut node = 1;
        while node < self.leaves {
            node *= 2;
            // Rounding may leave a mass that only empty leaves could take: stay where there is something.
            if mass >= self.nodes[node] && self.nodes[node + 1] > 0.0 {
                mass -= self.nodes[node];
                node += 1;
            }
        }
        node - self.leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_draws_in_proportion(values in prop::collection::vec(0.0f64..10.0, 1..70)) {
            let mut tree = SumTree::new(values.len());
            for (i, v) in values.iter().enumerate() {
                tree.set(i, 100.0);
                tree.set(i, *v);
            }
            prop_assert_eq!(&SumTree::of(values.clone(), values.len()), &tree);
            let sum: f64 = values.iter().sum();
            prop_assert!((tree.total() - sum).abs() < 1e-9);
            let mut before = 0.0;
            for (i, v) in values.iter().enumerate() {
                if *v > 1e-6 {
                    prop_assert_eq!(tree.find(before + 0.5 * v), i);
                }
                before += v;
            }
        }
    }
}
