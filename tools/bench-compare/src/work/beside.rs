//! Gets while one more thread puts or scans.

use std::time::{Duration, Instant};

use super::put::Putter;
use super::read::{draws, getter, span};
use super::{Bench, Clocks, Length, Measured};
use crate::crew::{self, Rate, Span};
use crate::engines::Result;

/// Bytes of keys and values that are scanned between two looks at the clock.
const STRETCH: u64 = 4 << 20;

/// A get must see what was acknowledged before it began, or what was begun before it ended.
pub(super) fn get_while_put(
    bench: &Bench<'_>,
    threads: usize,
    pace: Option<u32>,
    length: Length,
    clocks: &Clocks,
) -> Result<Measured> {
    let count = bench.model.len();
    let begun = bench.begun;
    (0..count).for_each(|number| begun.set(number, bench.model.get(number)));
    let span = span(threads, length, 1);
    let (rate, aside) = crew::run(threads, true, span, &|thread| {
        if thread == threads {
            let mut putter = Putter::new(bench, 0, 1);
            let (begun_at, mut puts) = (Instant::now(), 0);
            let mut watch = clocks.aside.stopwatch();
            return Box::new(move || {
                if let Some(pace) = pace {
                    let due = Duration::from_secs(1) * puts / pace;
                    std::thread::sleep(due.saturating_sub(begun_at.elapsed()));
                    puts += 1;
                }
                let (number, generation) = putter.draw();
                begun.set(number, generation);
                watch.time(|| putter.put(bench.engine))
            });
        }
        let mut draws = draws(bench, count, thread);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut watch = clocks.main.stopwatch();
        Box::new(move || {
            let number = draws.draw();
            bench.data.key(number, &mut key);
            value.clear();
            let least = bench.model.get(number);
            let found = watch.time(|| bench.engine.get(&key, &mut value))?;
            let got = bench.data.generation(number, &value);
            let most = begun.get(number);
            match got {
                Some(got) if found && (least..=most).contains(&got) => Ok(()),
                _ => Err(format!("get {number}: generation {got:?}, not {least} to {most}")),
            }
        })
    })?;
    let user_bytes = aside.ops * bench.data.entry();
    Ok(Measured { rate, aside: Some(aside), user_bytes, ..Measured::default() })
}

/// A get finds what it should, and so does the scan, which begins again when it was through.
pub(super) fn get_while_scan(
    bench: &Bench<'_>,
    threads: usize,
    pace: u64,
    length: Length,
    clocks: &Clocks,
) -> Result<Measured> {
    let same = bench.model.same();
    let stretch = (STRETCH / bench.data.entry()).max(1);
    // A stretch takes long.
    let span = Span { lap: 1, ..span(threads, length, 1) };
    let (rate, aside) = crew::run(threads, true, span, &|thread| {
        if thread < threads {
            return getter(bench, same, thread, clocks);
        }
        let mut scanner = Scanner { bench, same, from: Vec::new(), seen: 0 };
        let (begun_at, mut scanned) = (Instant::now(), 0);
        Box::new(move || {
            let due = Duration::from_secs_f64((scanned * bench.data.entry()) as f64 / pace as f64);
            std::thread::sleep(due.saturating_sub(begun_at.elapsed()));
            scanned += stretch;
            scanner.go_on(stretch)
        })
    })?;
    let aside = Some(Rate { ops: aside.ops * stretch, ..aside });
    Ok(Measured { rate, aside, ..Measured::default() })
}

/// Reads a store from its first entry to its last, again and again.
struct Scanner<'b> {
    bench: &'b Bench<'b>,
    /// The generation of all values, if it is one.
    same: Option<u32>,
    /// No entry below it is left in this turn.
    from: Vec<u8>,
    /// Entries of this turn.
    seen: u64,
}

impl Scanner<'_> {
    /// Reads `count` entries.
    fn go_on(&mut self, count: u64) -> Result<()> {
        let mut left = count;
        while left > 0 {
            let seen = self.read(left)?;
            self.seen += seen;
            if seen < left {
                let present = self.bench.model.present();
                if self.seen != present || present == 0 {
                    return Err(format!("scan beside: {} entries, not {present}", self.seen));
                }
                self.seen = 0;
                self.from.clear();
            }
            left -= seen;
        }
        Ok(())
    }

    /// Reads `count` entries, or as many as are left in this turn; how many there were.
    fn read(&mut self, count: u64) -> Result<u64> {
        let Bench { engine, data, model, .. } = self.bench;
        let (mut seen, mut last, mut wrong) = (0, self.from.clone(), None);
        engine.scan(&self.from, count as usize, &mut |key, value| {
            let ordered = if seen == 0 { key >= &last[..] } else { key > &last[..] };
            seen += 1;
            let number = data.number(key);
            let got = number.and_then(|number| data.generation(number, value));
            let wanted = self.same.or_else(|| Some(model.get(number?)));
            if !ordered || got.is_none() || got != wanted {
                wrong = Some(format!("ordered {ordered}, generation {got:?}, key {key:?}"));
            }
            last.clear();
            last.extend_from_slice(key);
        })?;
        if let Some(wrong) = wrong {
            return Err(format!("scan beside: {wrong}"));
        }
        // The next key that there may be.
        last.push(0);
        self.from = last;
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Data, Filling, Model, Spread};
    use crate::engines::{Engine, Written};
    use crate::measure::latency::Timing;
    use crate::measure::misses::{Looks, Misses};
    use crate::promise::Promise;
    use bench::data::draw::Draw;
    use bench::tpcc::Scale;
    use std::collections::BTreeMap;

    /// A store that does no more than is asked here.
    struct Map(BTreeMap<Vec<u8>, Vec<u8>>);

    impl Engine for Map {
        fn put(&self, _: &[u8], _: &[u8]) -> Result<()> {
            Err("no puts".into())
        }
        fn put_batch(&self, _: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
            Err("no puts".into())
        }
        fn delete(&self, _: &[u8]) -> Result<()> {
            Err("no puts".into())
        }
        fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
            let found = self.0.get(key);
            found.iter().for_each(|found| value.extend_from_slice(found));
            Ok(found.is_some())
        }
        fn scan(
            &self,
            from: &[u8],
            count: usize,
            each: &mut dyn FnMut(&[u8], &[u8]),
        ) -> Result<()> {
            self.0.range(from.to_vec()..).take(count).for_each(|(key, value)| each(key, value));
            Ok(())
        }
        fn compact(&self) -> Result<()> {
            Ok(())
        }
        fn written(&self) -> Option<Written> {
            None
        }
        fn promise(&self) -> Promise {
            Promise::Nothing
        }
        fn durability(&self) -> Result<String> {
            Ok(String::new())
        }
        fn close(self: Box<Self>) -> Result<()> {
            Ok(())
        }
    }

    const KEYS: u64 = 10;

    fn map(data: &Data, model: &Model) -> Map {
        let mut map = Map(BTreeMap::new());
        for number in 0..KEYS {
            let (mut key, mut value) = (Vec::new(), Vec::new());
            data.key(number, &mut key);
            data.value(number, 1, &mut value);
            model.set(number, 1);
            map.0.insert(key, value);
        }
        map
    }

    fn bench<'b>(engine: &'b Map, data: &'b Data, model: &'b Model) -> Bench<'b> {
        Bench {
            engine,
            data,
            model,
            begun: model,
            records: None,
            scale: Scale::default(),
            draw: Draw::Zipf,
            seed: 1,
        }
    }

    #[test]
    fn a_scan_begins_again_and_misses_nothing() {
        for spread in [Spread::Dense, Spread::Hashed] {
            let data = Data::new(spread, Filling::Half, 100);
            let model = Model::new(KEYS);
            let mut map = map(&data, &model);
            for (count, left) in [(3, 3), (10, 0), (25, 5), (20, 0)] {
                let bench = bench(&map, &data, &model);
                let mut scanner =
                    Scanner { bench: &bench, same: Some(1), from: Vec::new(), seen: 0 };
                scanner.go_on(count).unwrap();
                assert_eq!(scanner.seen % KEYS, left, "{spread:?} {count}");
            }
            map.0.pop_last();
            let bench = bench(&map, &data, &model);
            let mut scanner = Scanner { bench: &bench, same: Some(1), from: Vec::new(), seen: 0 };
            scanner.go_on(9).unwrap();
            assert!(scanner.go_on(1).unwrap_err().contains("9 entries, not 10"));
        }
    }

    #[test]
    fn gets_and_entries_are_counted_apart() {
        let data = Data::new(Spread::Dense, Filling::Half, 100);
        let model = Model::new(KEYS);
        let map = map(&data, &model);
        let bench = bench(&map, &data, &model);
        let clocks = Clocks { misses: Misses::new(Looks::On), ..Clocks::new(Timing::Every(1)) };
        let length = Length { time: Duration::from_secs(60), ops: 320 };
        let measured = get_while_scan(&bench, 1, u64::MAX, length, &clocks).unwrap();
        assert_eq!(measured.rate.ops, 320);
        assert_eq!(measured.aside.unwrap().ops, 320 * (STRETCH / data.entry()));
        // A map reads no disk.
        let hits = clocks.misses.hits().unwrap();
        assert_eq!((hits.looked, hits.found), (20, 20));
    }
}
