use base::Seq;

use crate::keyspace::vacancies::*;

/// Everything that is known, as text.
fn shown(vacancies: &Vacancies) -> String {
    let known = vacancies.known.load();
    let text = |range: &Range| {
        let key = |key: &[u8]| key.escape_ascii().to_string();
        format!("{}-{}", key(&range.begin), key(&range.end))
    };
    let certain = known.vacancies.iter().map(|v| format!("{}@{}", text(&v.range), v.since));
    let announced = known.announced.iter().map(|announced| text(&announced.range) + "?");
    certain.chain(announced).collect::<Vec<_>>().join(" ")
}

fn walk(vacancies: &Vacancies, begin: &str, end: &str, at: u64, next_seq: u64) {
    let (begin, end) = (begin.as_bytes(), end.as_bytes());
    vacancies.walked(
        &Walked { begin, end, snapshot: Seq::new(at), entries: 1_000 },
        Seq::ZERO,
        || Seq::new(next_seq),
    );
}

fn delete(vacancies: &Vacancies, begin: &str, end: &str) -> Token {
    let range = (begin.as_bytes(), end.as_bytes());
    vacancies.announce(std::iter::once(range)).expect("a range")
}

#[test]
fn a_walk_is_a_vacancy_once_all_that_may_have_missed_it_was_seen() {
    let vacancies = Vacancies::default();
    walk(&vacancies, "b", "f", 9, 10);
    assert_eq!(shown(&vacancies), "b-f@9");
    // Commits 10 to 14 were under way.
    walk(&vacancies, "f", "k", 9, 15);
    assert_eq!(shown(&vacancies), "b-f@9 f-k?");
    walk(&vacancies, "f", "k", 13, 30);
    assert_eq!(
        shown(&vacancies),
        "b-f@9 f-k?",
        "commit 14 was not seen, and 30 is no worse to wait for"
    );
    walk(&vacancies, "g", "p", 14, 31);
    assert_eq!(shown(&vacancies), "b-f@9 g-k@14 f-g? k-p?");
    vacancies.fill(b"m");
    assert_eq!(shown(&vacancies), "b-f@9 g-k@14 f-g? k-m? m\\x00-p?");
    walk(&vacancies, "a", "z", 40, 41);
    assert_eq!(
        shown(&vacancies),
        "a-b@40 b-f@9 f-g@40 g-k@14 k-m@40 m-m\\x00@40 m\\x00-p@40 p-z@40"
    );
}

#[test]
fn a_range_deletion_that_is_given_up_leaves_what_was_known() {
    let vacancies = Vacancies::default();
    let first = delete(&vacancies, "d", "m");
    vacancies.fill(b"f");
    assert_eq!(shown(&vacancies), "d-f? f\\x00-m?");
    vacancies.vacate(first, Seq::new(7), Seq::ZERO);
    assert_eq!(shown(&vacancies), "d-f@7 f\\x00-m@7");
    let second = delete(&vacancies, "a", "z");
    vacancies.withdraw(second);
    assert_eq!(shown(&vacancies), "d-f@7 f\\x00-m@7");
    vacancies.fill_range(b"a", b"z");
    assert!(vacancies.is_empty());
}

#[test]
fn scans_jump_over_vacancies_that_their_snapshots_see() {
    let vacancies = Vacancies::default();
    for (begin, end, since) in [("b", "f", 10), ("f", "k", 20), ("m", "p", 10)] {
        let token = delete(&vacancies, begin, end);
        vacancies.vacate(token, Seq::new(since), Seq::ZERO);
    }
    let known = vacancies.known().expect("some");
    let behind = |key: &str, at| known.behind(key.as_bytes(), at).map(<[u8]>::escape_ascii);
    let behind = |key, at| behind(key, at).map(|key| key.to_string()).unwrap_or_default();
    let before = |key: &str, at| known.before(key.as_bytes(), at).map(<[u8]>::escape_ascii);
    let before = |key, at| before(key, at).map(|key| key.to_string()).unwrap_or_default();
    for (key, at, forward, backward) in [
        ("b", 9, "", ""),
        ("b", 10, "f", ""),
        ("c", 20, "k", "b"),
        ("f", 10, "", "b"),
        ("k", 20, "", "b"),
        ("k", 10, "", ""),
        ("n", 10, "p", "m"),
        ("p", 10, "", "m"),
        ("q", 99, "", ""),
    ] {
        let at = Seq::new(at);
        assert_eq!((&*behind(key, at), &*before(key, at)), (forward, backward), "{key} at {at}");
    }
}

#[test]
fn neighbours_join_when_no_snapshot_tells_them_apart_and_the_least_worth_make_way() {
    let vacancies = Vacancies::default();
    let key = |i: usize| format!("{i:04}");
    for i in 0..VACANCIES_MAX {
        walk(&vacancies, &key(10 * i), &key(10 * i + 5), 100, 101);
    }
    let count = || vacancies.known.load().vacancies.len();
    assert_eq!(count(), VACANCIES_MAX);
    let least = Walked { begin: b"9990", end: b"9995", snapshot: Seq::new(100), entries: 999 };
    vacancies.walked(&least, Seq::ZERO, || Seq::new(101));
    assert!(!shown(&vacancies).contains("9990"), "it is worth less than each that is known");
    vacancies.walked(&Walked { entries: 1_001, ..least }, Seq::ZERO, || Seq::new(101));
    assert_eq!(count(), VACANCIES_MAX);
    assert!(shown(&vacancies).contains("9990-9995@100"));
    // What makes a vacancy longer is taken in however little it is.
    vacancies.walked(
        &Walked { begin: b"9995", end: b"9996", snapshot: Seq::new(110), entries: 1 },
        Seq::new(110),
        || Seq::new(111),
    );
    assert!(shown(&vacancies).contains("9990-9996@110"), "{}", shown(&vacancies));
}

#[test]
fn a_vacancy_that_is_put_into_again_and_again_goes() {
    let vacancies = Vacancies::default();
    let token = delete(&vacancies, "a", "z");
    vacancies.vacate(token, Seq::new(1), Seq::ZERO);
    for i in 0..UNCOUNTED / CUT_COST {
        assert!(!vacancies.is_empty());
        vacancies.fill(format!("k{i:03}").as_bytes());
    }
    assert_eq!(
        vacancies.known().map(|known| known.behind(b"x", Seq::new(9)).is_some()),
        Some(false)
    );
}
