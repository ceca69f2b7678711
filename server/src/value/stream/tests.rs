//! The stream beside a plain map that does the same.

use super::*;
use crate::value::random::Random;

fn id(ms: u64, seq: u64) -> StreamId {
    StreamId { ms, seq }
}

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn fields_of(entry: &Entry<'_>) -> Fields {
    entry
        .pairs()
        .map(|(field, value)| (field.to_vec(), value.to_vec()))
        .collect()
}

fn contents(stream: &Stream) -> Vec<(StreamId, Fields)> {
    let all = stream.range(StreamId::MIN, StreamId::MAX);
    all.map(|entry| (entry.id(), fields_of(&entry))).collect()
}

fn add(stream: &mut Stream, id: StreamId, fields: &Fields, limits: NodeLimits) {
    let items: Vec<&[u8]> = fields
        .iter()
        .flat_map(|(field, value)| [&field[..], value])
        .collect();
    stream.add(id, &items, limits);
}

fn sample_fields(random: &mut Random) -> Fields {
    let names: &[&str] = match random.below(4) {
        0 => &["temperature", "unit"],
        1 => &["unit", "temperature"],
        2 => &["7"],
        _ => &["temperature", "unit", "place"],
    };
    let value = |random: &mut Random| match random.below(3) {
        0 => random.below(100_000).to_string().into_bytes(),
        1 => vec![b'x'; random.below(80) as usize],
        _ => b"-1".to_vec(),
    };
    names
        .iter()
        .map(|name| (name.as_bytes().to_vec(), value(random)))
        .collect()
}

fn sample_limits(random: &mut Random) -> NodeLimits {
    let (bytes, entries) = ([0, 60, 300, 4096], [0, 1, 3, 100]);
    NodeLimits {
        bytes: bytes[random.below(4) as usize],
        entries: entries[random.below(4) as usize],
    }
}

#[test]
fn adding_deleting_trimming_and_ranges_do_what_a_map_does() {
    for seed in 1..150 {
        let mut random = Random::new(seed);
        let limits = sample_limits(&mut random);
        let (mut stream, mut model) = (Stream::default(), BTreeMap::new());
        let mut last = StreamId::MIN;
        for _ in 0..120 {
            match random.below(8) {
                0 => {
                    let doomed = id(random.below(last.ms + 1), random.below(3));
                    assert_eq!(stream.delete(doomed), model.remove(&doomed).is_some());
                }
                1 if random.below(5) == 0 => {
                    let keep = random.below(model.len() as u64 + 2);
                    let trim = Trim {
                        keep: Keep::Latest(keep),
                        approximate: false,
                        limit: None,
                    };
                    let surplus = (model.len() as u64).saturating_sub(keep);
                    assert_eq!(stream.trim(trim), surplus);
                    for _ in 0..surplus {
                        model.pop_first();
                    }
                }
                2 if random.below(5) == 0 => {
                    let from = id(random.below(last.ms + 2), random.below(3));
                    let trim = Trim {
                        keep: Keep::From(from),
                        approximate: false,
                        limit: None,
                    };
                    let kept = model.split_off(&from);
                    assert_eq!(stream.trim(trim), model.len() as u64);
                    model = kept;
                }
                _ => {
                    let step = random.below(3);
                    last = if step == 0 {
                        last.next().unwrap()
                    } else {
                        id(last.ms + step, 0)
                    };
                    let fields = sample_fields(&mut random);
                    add(&mut stream, last, &fields, limits);
                    model.insert(last, fields);
                }
            }
            let first = model.first_key_value().map_or(StreamId::MIN, |(&id, _)| id);
            assert_eq!(
                (stream.len(), stream.first_id()),
                (model.len() as u64, first)
            );
        }
        check_ranges(&stream, &model, last, &mut random);
        let nodes = stream
            .nodes()
            .map(|(id, packed)| (id, packed.clone()))
            .collect();
        let again = Stream::from_nodes(nodes, stream.history()).expect("sound nodes");
        assert_eq!(contents(&again), contents(&stream), "seed {seed}");
    }
}

fn check_ranges(
    stream: &Stream,
    model: &BTreeMap<StreamId, Fields>,
    last: StreamId,
    random: &mut Random,
) {
    for _ in 0..40 {
        let mut edge = || id(random.below(last.ms + 3), random.below(3));
        let (start, end) = (edge(), edge());
        let expected: Vec<_> = model
            .iter()
            .filter(|(id, _)| (start..=end).contains(id))
            .collect();
        let forward: Vec<_> = stream
            .range(start, end)
            .map(|entry| (entry.id(), fields_of(&entry)))
            .collect();
        assert!(
            forward
                .iter()
                .map(|(id, fields)| (id, fields))
                .eq(expected.iter().copied())
        );
        let backward: Vec<_> = stream
            .range_back(start, end)
            .map(|entry| entry.id())
            .collect();
        assert!(backward.iter().eq(expected.iter().rev().map(|(id, _)| *id)));
    }
}

#[test]
fn approximate_trimming_drops_whole_nodes_only_and_keeps_its_limit() {
    let fields = vec![(b"f".to_vec(), b"v".to_vec())];
    let mut stream = Stream::default();
    for n in 1..=1000 {
        add(&mut stream, id(n, 0), &fields, NodeLimits::default());
    }
    assert_eq!(stream.node_count(), 10);
    let trim = |keep, limit| Trim {
        keep,
        approximate: true,
        limit,
    };
    assert_eq!(stream.trim(trim(Keep::Latest(950), None)), 0);
    assert_eq!(stream.trim(trim(Keep::Latest(450), Some(250))), 200);
    assert_eq!(stream.trim(trim(Keep::Latest(450), Some(0))), 0);
    assert_eq!(stream.trim(trim(Keep::Latest(450), None)), 300);
    assert_eq!(stream.trim(trim(Keep::From(id(650, 0)), None)), 100);
    assert_eq!((stream.len(), stream.first_id()), (400, id(601, 0)));
}

#[test]
fn nodes_fill_up_to_their_limits() {
    let mut stream = Stream::default();
    let small = vec![(b"f".to_vec(), b"v".to_vec())];
    let large = vec![(b"f".to_vec(), vec![b'v'; 5000])];
    add(&mut stream, id(1, 0), &small, NodeLimits::default());
    add(&mut stream, id(2, 0), &large, NodeLimits::default());
    add(&mut stream, id(3, 0), &small, NodeLimits::default());
    add(&mut stream, id(4, 0), &small, NodeLimits::default());
    let ids: Vec<_> = stream.node_ids().collect();
    assert_eq!(ids, [id(1, 0), id(2, 0), id(3, 0)]);
}

#[test]
fn ids_step_over_the_edge_of_a_millisecond() {
    assert_eq!(id(1, u64::MAX).next(), Some(id(2, 0)));
    assert_eq!(id(2, 0).previous(), Some(id(1, u64::MAX)));
    assert_eq!(StreamId::MAX.next(), None);
    assert_eq!(StreamId::MIN.previous(), None);
    assert_eq!(StreamId::from_bytes(id(3, 4).to_bytes()), id(3, 4));
}

#[test]
fn ids_of_any_distance_from_their_node_come_back() {
    let fields = vec![(b"f".to_vec(), b"v".to_vec())];
    let mut stream = Stream::default();
    let ids = [
        id(0, u64::MAX),
        id(1, 0),
        id(u64::MAX / 2 + 9, 3),
        id(u64::MAX, u64::MAX),
    ];
    for id in ids {
        add(&mut stream, id, &fields, NodeLimits::default());
    }
    assert_eq!(stream.node_count(), 1);
    assert!(contents(&stream).iter().map(|(id, _)| *id).eq(ids));
    assert_eq!(stream.next_id(5), None);
}

#[test]
fn a_group_and_its_consumers_agree_on_what_is_pending() {
    let mut random = Random::new(9);
    let mut group = Group::default();
    let names = ["a", "b", "c"];
    for _ in 0..3000 {
        let name = names[random.below(3) as usize].as_bytes();
        let entry = id(random.below(40), 0);
        match random.below(12) {
            0 => drop(group.remove_consumer(name)),
            1..=4 => drop(group.acknowledge(entry)),
            _ => {
                group.add_consumer(name, 0);
                let consumer = ByteStr::new(name);
                group.assign(
                    entry,
                    Pending {
                        consumer,
                        delivered_ms: 0,
                        deliveries: 1,
                    },
                );
            }
        }
        let of_consumers: usize = group.consumers().values().map(|c| c.pending().len()).sum();
        assert_eq!(of_consumers, group.pending().len());
        for (id, pending) in group.pending() {
            assert!(group.consumers()[&pending.consumer].pending().contains(id));
        }
    }
}

#[test]
fn damaged_nodes_are_refused_and_harm_nothing() {
    let mut random = Random::new(4);
    let mut stream = Stream::default();
    for n in 1..30 {
        add(
            &mut stream,
            id(n, 0),
            &sample_fields(&mut random),
            NodeLimits::default(),
        );
    }
    let (first, node) = stream.nodes().next().expect("a node");
    let listpack = node.to_listpack();
    for at in 6..listpack.len() - 1 {
        for byte in [0, 1, 5, 0x7f, 0x80, 0xff, listpack[at] ^ 2] {
            let mut changed = listpack.clone();
            changed[at] = byte;
            let Some(packed) = Packed::from_listpack(&changed) else {
                continue;
            };
            let history = stream.history();
            if let Some(mut stream) = Stream::from_nodes(vec![(first, packed)], history) {
                let entries = stream.range(StreamId::MIN, StreamId::MAX).count();
                assert_eq!(entries as u64, stream.len());
                assert_eq!(
                    stream.range_back(StreamId::MIN, StreamId::MAX).count(),
                    entries
                );
                stream.delete(id(5, 0));
            }
        }
    }
}

#[test]
fn a_few_nodes_tell_about_how_large_a_stream_is() {
    let mut stream = Stream::default();
    let mut random = Random::new(3);
    for n in 1..=5000 {
        let fields = sample_fields(&mut random);
        add(&mut stream, id(n, 0), &fields, NodeLimits::default());
    }
    let (exact, estimate) = (stream.heap_size(usize::MAX), stream.heap_size(5));
    assert!(exact > 50_000);
    assert!(
        estimate.abs_diff(exact) < exact / 5,
        "{estimate} of {exact}"
    );
    assert_eq!(Stream::default().heap_size(5), 0);
}
