use super::super::disk::faults::{Disk, Fault, Kind};
use super::super::testing::ScratchDir;
use super::*;

/// A ring of records that spell out their own index, so that any mix-up shows.
#[derive(Clone, Debug, PartialEq)]
struct Ring {
    capacity: u64,
    newest: u64,
    slots: Vec<u64>,
    record_bytes: usize,
}

impl Ring {
    fn new(capacity: u64, record_bytes: usize) -> Self {
        Ring { capacity, newest: 0, slots: vec![u64::MAX; capacity as usize], record_bytes }
    }

    fn push(&mut self, count: u64) {
        for _ in 0..count {
            self.slots[(self.newest % self.capacity) as usize] = self.newest * 31;
            self.newest += 1;
        }
    }
}

impl Records for Ring {
    fn oldest(&self) -> u64 {
        self.newest.saturating_sub(self.capacity)
    }
    fn newest(&self) -> u64 {
        self.newest
    }
    fn write_range(&mut self, first: u64, count: u64, out: &mut Vec<u8>) -> Result<(), StateError> {
        assert!(first >= self.oldest() && first + count <= self.newest, "only held records are asked for");
        for index in first..first + count {
            let start = out.len();
            out.extend_from_slice(&self.slots[(index % self.capacity) as usize].to_le_bytes());
            out.resize(start + self.record_bytes, 0);
        }
        Ok(())
    }
    fn bytes_per_record(&self) -> usize {
        self.record_bytes
    }
    fn read_range(&mut self, first: u64, count: u64, bytes: &[u8]) -> Result<(), StateError> {
        if bytes.len() as u64 != count * self.record_bytes as u64 {
            return Err(StateError("wrong length".into()));
        }
        for (index, record) in (first..).zip(bytes.chunks_exact(self.record_bytes)) {
            self.slots[(index % self.capacity) as usize] =
                u64::from_le_bytes(record[..8].try_into().unwrap());
        }
        self.newest = first + count;
        Ok(())
    }
}

fn names(manifest: &[SegmentRef]) -> HashSet<String> {
    manifest.iter().map(|s| s.file.clone()).collect()
}

fn load(dir: &ScratchDir, manifest: &[SegmentRef], like: &Ring) -> Result<Ring, StoreError> {
    let mut ring = Ring::new(like.capacity, like.record_bytes);
    load_segments(dir.path(), manifest, &mut ring)?;
    Ok(ring)
}

/// What cannot be asked for may be there: another checkpoint may need it.
#[test]
fn a_name_that_the_disk_does_not_tell_of_is_not_free() {
    let dir = ScratchDir::new();
    let mut ring = Ring::new(8, 16);
    ring.push(5);
    let kept = append_segments(dir.path(), "a", &[], &mut ring).unwrap();
    let before = std::fs::read(dir.join(&kept[0].file)).unwrap();
    let mut other = Ring::new(8, 24);
    other.push(5);
    let disk = Disk::watch(dir.path(), None);
    append_segments(dir.path(), "a", &[], &mut other).unwrap();
    let kinds = disk.kinds();
    drop(disk);
    let mut refused = 0;
    for point in (0..kinds.len()).filter(|&point| kinds[point] == Kind::Look) {
        let disk = Disk::watch(dir.path(), Some((point, Fault::Fail)));
        refused += usize::from(append_segments(dir.path(), "a", &[], &mut other).is_err());
        drop(disk);
        assert_eq!(std::fs::read(dir.join(&kept[0].file)).unwrap(), before, "operation {point}");
    }
    assert!(refused > 0);
}

#[test]
fn many_checkpoints_with_wrap_around_crashes_and_collection() {
    // Three rings share a folder, as agents of a population do; names of one are prefixes of another's.
    let prefixes = ["spectral-s1", "spectral-s10", "spectral-s1-0"];
    for seed in 0..6u64 {
        let mut state = seed + 1;
        let mut below = move |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let dir = ScratchDir::new();
        let mut rings: Vec<Ring> = [1, 7, 100].map(|capacity| Ring::new(capacity, 16)).into();
        // The two newest committed checkpoints: the rings as they were, and their manifests.
        type Checkpoint = (Vec<Ring>, Vec<Vec<SegmentRef>>);
        let mut kept: Vec<Checkpoint> = vec![(rings.clone(), vec![vec![]; 3])];
        for _ in 0..60 {
            for ring in &mut rings {
                ring.push(below(40));
            }
            let previous = kept.last().unwrap().1.clone();
            let manifests: Vec<Vec<SegmentRef>> = (0..3)
                .map(|k| append_segments(dir.path(), prefixes[k], &previous[k], &mut rings[k]).unwrap())
                .collect();
            if below(4) == 0 {
                // Killed before the commit: the run goes on from the last checkpoint, its new files
                // orphaned.
                rings = kept.last().unwrap().0.clone();
            } else {
                kept.push((rings.clone(), manifests));
                if kept.len() > 2 {
                    kept.remove(0);
                }
                if below(3) > 0 {
                    let keep: HashSet<String> = kept
                        .iter()
                        .flat_map(|(_, manifests)| manifests.iter().flat_map(|m| names(m)))
                        .collect();
                    let deleted = collect_garbage(dir.path(), &keep).unwrap();
                    assert!(deleted.iter().all(|name| !keep.contains(name)));
                    assert_eq!(
                        dir.names().into_iter().collect::<HashSet<_>>(),
                        keep,
                        "only what is needed is left"
                    );
                }
            }
            for (then, manifests) in &kept {
                for (ring, manifest) in then.iter().zip(manifests) {
                    let loaded = load(&dir, manifest, ring).unwrap();
                    assert_eq!(&loaded, ring);
                    let needless = manifest.iter().filter(|s| s.end() <= ring.oldest()).count();
                    assert_eq!(needless, 0, "segments wholly older than the ring are not listed");
                }
            }
        }
    }
}

#[test]
fn a_checkpoint_costs_only_what_was_appended() {
    let dir = ScratchDir::new();
    let mut ring = Ring::new(1000, 64);
    ring.push(1000);
    let first = append_segments(dir.path(), "a", &[], &mut ring).unwrap();
    ring.push(10);
    let second = append_segments(dir.path(), "a", &first, &mut ring).unwrap();
    assert_eq!(second[0], first[0]);
    assert_eq!((second[1].first, second[1].count), (1000, 10));
    assert!(second[1].bytes < 400, "{} bytes for ten records", second[1].bytes);
    let unchanged = append_segments(dir.path(), "a", &second, &mut ring).unwrap();
    assert_eq!(unchanged, second);
    assert_eq!(dir.names().len(), 2);
}

#[test]
fn large_ranges_are_cut_at_the_segment_size() {
    let dir = ScratchDir::new();
    let mut ring = Ring::new(100, SEGMENT_BYTES / 2 - 1);
    ring.push(5);
    let manifest = append_segments(dir.path(), "a", &[], &mut ring).unwrap();
    assert_eq!(manifest.iter().map(|s| s.count).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(load(&dir, &manifest, &ring).unwrap(), ring);
}

#[test]
fn orphans_are_never_overwritten_or_mistaken() {
    let dir = ScratchDir::new();
    let mut ring = Ring::new(50, 16);
    ring.push(20);
    let orphaned = append_segments(dir.path(), "a", &[], &mut ring).unwrap();
    let before = std::fs::read(dir.join(&orphaned[0].file)).unwrap();
    // The same records again, with other content, as after a resumption from before them.
    ring.slots[0] = 12345;
    let committed = append_segments(dir.path(), "a", &[], &mut ring).unwrap();
    assert_ne!(committed[0].file, orphaned[0].file);
    assert_eq!(std::fs::read(dir.join(&orphaned[0].file)).unwrap(), before);
    assert_eq!(load(&dir, &committed, &ring).unwrap(), ring);
    let foreign = ["checkpoint-1.bin", "other.segment", "brain-scan-3.segment", "a-7-20.segment"];
    foreign.iter().for_each(|name| std::fs::write(dir.join(name), b"x").unwrap());
    assert_eq!(collect_garbage(dir.path(), &names(&committed)).unwrap(), [orphaned[0].file.as_str()]);
    assert_eq!(dir.names().len(), 1 + foreign.len(), "the committed segment stays, and what is not ours");
    assert_eq!(load(&dir, &committed, &ring).unwrap(), ring);
}

#[test]
fn missing_truncated_corrupt_and_swapped_segments_are_named() {
    let dir = ScratchDir::new();
    let mut ring = Ring::new(50, 16);
    let mut manifest = Vec::new();
    for _ in 0..3 {
        ring.push(10);
        manifest = append_segments(dir.path(), "a", &manifest, &mut ring).unwrap();
    }
    let path = dir.join(&manifest[1].file);
    let whole = std::fs::read(&path).unwrap();
    let failure = || {
        let error = load(&dir, &manifest, &ring).unwrap_err();
        assert!(error.to_string().contains(&manifest[1].file), "{error}");
        error
    };
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(failure(), StoreError::NotFound { .. }));
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert!(matches!(failure(), StoreError::Truncated { .. }));
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    std::fs::write(&path, &flipped).unwrap();
    assert!(matches!(failure(), StoreError::Corrupt { .. }));
    std::fs::copy(dir.join(&manifest[0].file), &path).unwrap();
    assert!(matches!(failure(), StoreError::Mismatch { .. }));
    // Same range, sound file, other content: only the manifest's own checksum can tell.
    let mut part = Vec::new();
    ring.clone().write_range(10, 10, &mut part).unwrap();
    part[40] ^= 1;
    let forged = write_segment(dir.path(), "c", 10, 10, RECORDS, &part).unwrap();
    std::fs::copy(dir.join(&forged.file), &path).unwrap();
    assert!(matches!(failure(), StoreError::Mismatch { .. }));
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(load(&dir, &manifest, &ring).unwrap(), ring);
}

#[test]
fn manifests_with_gaps_or_of_another_replay_are_refused() {
    let dir = ScratchDir::new();
    let mut ring = Ring::new(50, 16);
    let mut manifest = Vec::new();
    for _ in 0..3 {
        ring.push(10);
        manifest = append_segments(dir.path(), "a", &manifest, &mut ring).unwrap();
    }
    let gap = [manifest[0].clone(), manifest[2].clone()];
    assert!(load(&dir, &gap, &ring).unwrap_err().to_string().contains("records 10 to 20 are in no segment"));
    let error = load(&dir, &manifest[1..], &ring).unwrap_err();
    assert!(error.to_string().contains("the replay needs 0..30"), "{error}");
    let mut young = Ring::new(50, 16);
    let error = append_segments(dir.path(), "a", &manifest, &mut young).unwrap_err();
    assert!(error.to_string().contains("reach record 30"), "{error}");
    let mut old = ring.clone();
    assert!(load_segments(dir.path(), &[], &mut old).is_err());
}

#[test]
fn manifests_survive_bytes_and_never_lead_out_of_the_folder() {
    let segment = |file: &str| SegmentRef { file: file.into(), first: 3, count: 4, crc: 5, bytes: 6 };
    let manifest = vec![segment("a.segment"), segment("b.segment")];
    let bytes = SegmentRef::manifest_to_bytes(&manifest);
    assert_eq!(SegmentRef::manifest_from_bytes(&bytes).unwrap(), manifest);
    for cut in 0..bytes.len() {
        assert!(SegmentRef::manifest_from_bytes(&bytes[..cut]).is_err());
    }
    for file in ["../a.segment", "/etc/passwd", "..", "", "a\\b", "c:x"] {
        assert!(SegmentRef::manifest_from_bytes(&SegmentRef::manifest_to_bytes(&[segment(file)])).is_err());
    }
    let endless = SegmentRef { count: u64::MAX, ..segment("a") };
    assert!(SegmentRef::manifest_from_bytes(&SegmentRef::manifest_to_bytes(&[endless])).is_err());
}
