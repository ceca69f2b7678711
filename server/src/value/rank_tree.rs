//! A B+ tree of scored ids that knows ranks: the order of a large sorted set.
//!
//! It keeps no members. Its owner says how an id compares, and only the search for a rank
//! compares anything: every change is made at a rank, which descends by counts. Nodes know the
//! last entry of each child, so the search stays within the inner nodes until the leaf.

/// Slots of a leaf and of an inner node.
const NODE_SLOTS: usize = 64;
/// Below so many slots a node is joined with its neighbour.
const SPARSE_SLOTS: usize = NODE_SLOTS / 4;
/// Joined nodes keep some room, so that the next insertion does not part them again.
const JOINED_SLOTS: usize = NODE_SLOTS * 3 / 4;

/// Ids in order, each with the score that the order goes by first.
#[derive(Clone, Default)]
pub struct RankTree {
    root: Node,
    len: usize,
}

#[derive(Clone)]
enum Node {
    Leaf(Leaf),
    Inner(Vec<Child>),
}

/// Scores and ids side by side: a search reads scores, and eight of them fill a cache line.
#[derive(Clone, Default)]
struct Leaf {
    scores: Vec<f64>,
    ids: Vec<u32>,
}

#[derive(Clone)]
struct Child {
    node: Box<Node>,
    last_score: f64,
    last_id: u32,
    count: u32,
}

impl Default for Node {
    fn default() -> Self {
        Node::Leaf(Leaf::default())
    }
}

impl RankTree {
    /// How many entries come before the first that `before` denies. All that it affirms must
    /// stand in front.
    pub fn partition(&self, before: impl Fn(f64, u32) -> bool) -> usize {
        let (mut node, mut rank) = (&self.root, 0);
        loop {
            match node {
                Node::Leaf(leaf) => return rank + leaf.partition(before),
                Node::Inner(children) => {
                    let nth = children.partition_point(|c| before(c.last_score, c.last_id));
                    rank += children[..nth]
                        .iter()
                        .map(|c| c.count as usize)
                        .sum::<usize>();
                    match children.get(nth) {
                        Some(child) => node = &child.node,
                        None => return rank,
                    }
                }
            }
        }
    }

    /// Puts an entry in so that it has this rank, which is at most the number of entries.
    pub fn insert(&mut self, rank: usize, score: f64, id: u32) {
        self.len += 1;
        if let Some(right) = self.root.insert(rank, score, id) {
            let left = Child::new(std::mem::take(&mut self.root));
            self.root = Node::Inner(vec![left, right]);
        }
    }

    /// Takes the entry at a rank that there is out.
    pub fn remove(&mut self, rank: usize) -> (f64, u32) {
        self.len -= 1;
        let removed = self.root.remove(rank);
        while let Node::Inner(children) = &mut self.root {
            if children.len() > 1 {
                break;
            }
            self.root = children.pop().map(|child| *child.node).unwrap_or_default();
        }
        removed
    }

    /// Gives the entry at a rank that there is another id; its place must stay right.
    pub fn relabel(&mut self, rank: usize, id: u32) {
        self.root.relabel(rank, id);
    }

    /// Up to `count` entries from a rank on, upward.
    pub fn range(&self, rank: usize, count: usize) -> Entries<'_> {
        let mut entries = Entries {
            path: Vec::new(),
            leaf: None,
            left: count,
            forward: true,
        };
        if rank < self.len {
            entries.descend(&self.root, rank);
        }
        entries
    }

    /// Up to `count` entries from a rank on, downward.
    pub fn range_down(&self, rank: usize, count: usize) -> Entries<'_> {
        Entries {
            forward: false,
            ..self.range(rank, count)
        }
    }

    /// What it holds outside of itself, in bytes, supposing that its nodes are alike.
    pub fn heap_size(&self) -> usize {
        let slot = size_of::<f64>() + size_of::<u32>();
        let node = size_of::<Child>() + size_of::<Node>();
        // Nodes are between half and completely full unless most of the entries have gone.
        self.len * slot * 4 / 3 + self.len.div_ceil(NODE_SLOTS * 3 / 4) * node
    }
}

impl Leaf {
    fn partition(&self, before: impl Fn(f64, u32) -> bool) -> usize {
        let (mut low, mut high) = (0, self.ids.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if before(self.scores[middle], self.ids[middle]) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn split_off(&mut self, at: usize) -> Leaf {
        Leaf {
            scores: self.scores.split_off(at),
            ids: self.ids.split_off(at),
        }
    }

    fn insert(&mut self, at: usize, score: f64, id: u32) {
        self.scores.insert(at, score);
        self.ids.insert(at, id);
    }
}

/// Where a full node parts for an insertion at `at`. At either end it parts right there, so that
/// entries that arrive in order fill their nodes completely.
fn split_point(at: usize, len: usize) -> usize {
    if at == len {
        len
    } else if at == 0 {
        0
    } else {
        len / 2
    }
}

impl Node {
    fn slots(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.ids.len(),
            Node::Inner(children) => children.len(),
        }
    }

    fn insert(&mut self, rank: usize, score: f64, id: u32) -> Option<Child> {
        let (nth, rank) = self.child_for_insert(rank);
        match self {
            Node::Leaf(leaf) => Self::insert_into_leaf(leaf, rank, score, id),
            Node::Inner(children) => {
                let split = children[nth].node.insert(rank, score, id);
                children[nth].refresh();
                Self::insert_child(children, nth + 1, split?)
            }
        }
    }

    fn child_for_insert(&self, mut rank: usize) -> (usize, usize) {
        let Node::Inner(children) = self else {
            return (0, rank);
        };
        for (nth, child) in children.iter().enumerate() {
            if rank <= child.count as usize {
                return (nth, rank);
            }
            rank -= child.count as usize;
        }
        (children.len() - 1, rank)
    }

    fn insert_into_leaf(leaf: &mut Leaf, at: usize, score: f64, id: u32) -> Option<Child> {
        if leaf.ids.len() < NODE_SLOTS {
            leaf.insert(at, score, id);
            return None;
        }
        let cut = split_point(at, leaf.ids.len());
        let mut right = leaf.split_off(cut);
        if at < cut || cut == 0 {
            leaf.insert(at, score, id);
        } else {
            right.insert(at - cut, score, id);
        }
        Some(Child::new(Node::Leaf(right)))
    }

    fn insert_child(children: &mut Vec<Child>, at: usize, child: Child) -> Option<Child> {
        if children.len() < NODE_SLOTS {
            children.insert(at, child);
            return None;
        }
        let cut = split_point(at, children.len());
        let mut right = children.split_off(cut);
        if at < cut {
            children.insert(at, child);
        } else {
            right.insert(at - cut, child);
        }
        Some(Child::new(Node::Inner(right)))
    }

    /// Which child holds a rank, and at which rank of its own.
    fn child_at(children: &[Child], mut rank: usize) -> (usize, usize) {
        let mut nth = 0;
        while rank >= children[nth].count as usize {
            rank -= children[nth].count as usize;
            nth += 1;
        }
        (nth, rank)
    }

    fn remove(&mut self, rank: usize) -> (f64, u32) {
        match self {
            Node::Leaf(leaf) => (leaf.scores.remove(rank), leaf.ids.remove(rank)),
            Node::Inner(children) => {
                let (nth, rank) = Self::child_at(children, rank);
                let removed = children[nth].node.remove(rank);
                if children[nth].node.slots() == 0 {
                    children.remove(nth);
                } else {
                    children[nth].refresh();
                    Self::join_sparse(children, nth);
                }
                removed
            }
        }
    }

    /// Joins a sparse child with a neighbour if both have room in one node.
    fn join_sparse(children: &mut Vec<Child>, nth: usize) {
        let slots = children[nth].node.slots();
        if slots >= SPARSE_SLOTS {
            return;
        }
        let fits = |other: Option<&Child>| {
            other.is_some_and(|other| other.node.slots() + slots <= JOINED_SLOTS)
        };
        let left = if fits(children.get(nth + 1)) {
            nth
        } else if nth > 0 && fits(children.get(nth - 1)) {
            nth - 1
        } else {
            return;
        };
        let right = children.remove(left + 1);
        children[left].node.append(*right.node);
        children[left].refresh();
    }

    fn append(&mut self, other: Node) {
        match (self, other) {
            (Node::Leaf(leaf), Node::Leaf(mut other)) => {
                leaf.scores.append(&mut other.scores);
                leaf.ids.append(&mut other.ids);
            }
            (Node::Inner(children), Node::Inner(mut others)) => children.append(&mut others),
            _ => unreachable!("nodes of one level are of one kind"),
        }
    }

    fn relabel(&mut self, rank: usize, id: u32) {
        match self {
            Node::Leaf(leaf) => leaf.ids[rank] = id,
            Node::Inner(children) => {
                let (nth, rank) = Self::child_at(children, rank);
                children[nth].node.relabel(rank, id);
                children[nth].refresh();
            }
        }
    }
}

impl Child {
    fn new(node: Node) -> Child {
        let mut child = Child {
            node: Box::new(node),
            last_score: 0.0,
            last_id: 0,
            count: 0,
        };
        child.refresh();
        child
    }

    /// Takes over what the node says of itself after a change.
    fn refresh(&mut self) {
        match &*self.node {
            Node::Leaf(leaf) => {
                self.count = leaf.ids.len() as u32;
                self.last_id = leaf.ids.last().copied().unwrap_or_default();
                self.last_score = leaf.scores.last().copied().unwrap_or_default();
            }
            Node::Inner(children) => {
                self.count = children.iter().map(|child| child.count).sum();
                if let Some(last) = children.last() {
                    (self.last_score, self.last_id) = (last.last_score, last.last_id);
                }
            }
        }
    }
}

/// Entries of a tree one after another, in one direction.
#[derive(Clone)]
pub struct Entries<'a> {
    path: Vec<(&'a [Child], usize)>,
    leaf: Option<(&'a Leaf, usize)>,
    left: usize,
    forward: bool,
}

impl<'a> Entries<'a> {
    /// Goes down to the leaf that holds a rank of this node.
    fn descend(&mut self, mut node: &'a Node, mut rank: usize) {
        loop {
            match node {
                Node::Leaf(leaf) => {
                    self.leaf = Some((leaf, rank));
                    return;
                }
                Node::Inner(children) => {
                    let (nth, inner) = Node::child_at(children, rank);
                    self.path.push((children, nth));
                    (node, rank) = (&children[nth].node, inner);
                }
            }
        }
    }

    /// Goes over to the neighbouring leaf; there is none at the end.
    fn next_leaf(&mut self) {
        self.leaf = None;
        while let Some((children, nth)) = self.path.pop() {
            let neighbour = if self.forward {
                Some(nth + 1)
            } else {
                nth.checked_sub(1)
            };
            let Some(nth) = neighbour.filter(|nth| *nth < children.len()) else {
                continue;
            };
            self.path.push((children, nth));
            let child = &children[nth];
            let rank = if self.forward {
                0
            } else {
                child.count as usize - 1
            };
            self.descend(&child.node, rank);
            return;
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = (f64, u32);

    fn next(&mut self) -> Option<(f64, u32)> {
        self.left = self.left.checked_sub(1)?;
        let (leaf, at) = self.leaf?;
        let entry = (*leaf.scores.get(at)?, *leaf.ids.get(at)?);
        let next = if self.forward {
            Some(at + 1)
        } else {
            at.checked_sub(1)
        };
        match next.filter(|next| *next < leaf.ids.len()) {
            Some(next) => self.leaf = Some((leaf, next)),
            None => self.next_leaf(),
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::random::Random;

    fn insert(tree: &mut RankTree, score: f64, id: u32) {
        let rank = tree.partition(|other, other_id| (other, other_id) < (score, id));
        tree.insert(rank, score, id);
    }

    fn check(tree: &RankTree, model: &[(f64, u32)]) {
        assert_eq!(tree.len, model.len());
        assert!(tree.range(0, usize::MAX).eq(model.iter().copied()));
        let last = model.len().saturating_sub(1);
        assert!(
            tree.range_down(last, usize::MAX)
                .eq(model.iter().rev().copied())
        );
    }

    #[test]
    fn every_change_does_what_a_sorted_vector_does() {
        for seed in 1..12 {
            let mut random = Random::new(seed);
            let (mut tree, mut model) = (RankTree::default(), Vec::new());
            // Phases of growth and of decay, so that nodes part and join on several levels.
            for step in 0..20_000u32 {
                let growing = step / 5000 % 2 == 0;
                let grow = random.below(10) < if growing { 8 } else { 2 };
                if grow || model.is_empty() {
                    let score = random.below(500) as f64;
                    let place = model.partition_point(|&entry| entry < (score, step));
                    model.insert(place, (score, step));
                    insert(&mut tree, score, step);
                } else {
                    let rank = random.below(model.len() as u64) as usize;
                    assert_eq!(tree.remove(rank), model.remove(rank));
                }
                if step % 997 == 0 {
                    check(&tree, &model);
                }
            }
            check(&tree, &model);
            for rank in (0..model.len()).step_by(37) {
                assert_eq!(tree.range(rank, 1).next(), Some(model[rank]));
                let (score, id) = model[rank];
                assert_eq!(
                    tree.partition(|other, other_id| (other, other_id) < (score, id)),
                    rank
                );
                assert!(
                    tree.range(rank, 70)
                        .eq(model[rank..].iter().copied().take(70))
                );
            }
            while !model.is_empty() {
                assert_eq!(tree.remove(0), model.remove(0));
            }
            check(&tree, &model);
        }
    }

    #[test]
    fn a_relabelled_entry_is_found_by_its_new_id() {
        let mut tree = RankTree::default();
        for id in 0..1000 {
            insert(&mut tree, 1.0, id * 2);
        }
        for rank in 0..1000 {
            tree.relabel(rank, rank as u32 * 2 + 1);
            let id = rank as u32 * 2 + 1;
            assert_eq!(tree.partition(|_, other| other < id), rank);
        }
    }

    #[test]
    fn entries_in_ascending_or_descending_order_fill_their_nodes() {
        let count_leaves = |tree: &RankTree| match &tree.root {
            Node::Inner(children) => children.len(),
            Node::Leaf(_) => 1,
        };
        let (mut up, mut down) = (RankTree::default(), RankTree::default());
        for id in 0..NODE_SLOTS as u32 * 50 {
            insert(&mut up, f64::from(id), id);
            insert(&mut down, -f64::from(id), id);
        }
        assert_eq!(count_leaves(&up), 50);
        assert_eq!(count_leaves(&down), 50);
    }
}
