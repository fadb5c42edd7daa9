//! What is random in tables and transactions (clauses 2.1.6 and 4.3.2).

use std::ops::RangeInclusive;

use super::ids::DistrictId;
use super::rows::{Address, DISTRICTS};
use super::scale::Scale;
use crate::data::rng::Rng;

/// Parts of last names, by digit.
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const DIGITS: &[u8; 10] = b"0123456789";
/// What the data of one in ten items, and of one in ten rows of stock, hold.
const ORIGINAL: &str = "ORIGINAL";

/// The constants A and C of a non-uniform draw.
#[derive(Clone, Copy, Debug)]
struct Skewing {
    a: u64,
    c: u64,
}

const CUSTOMERS: Skewing = Skewing { a: 1023, c: 259 };
const ITEMS: Skewing = Skewing { a: 8191, c: 7911 };
const LAST_NAMES_LOADED: Skewing = Skewing { a: 255, c: 157 };
/// As clause 2.1.6.1 demands, its C is 65 to 119 from the other, and neither 96 nor 112.
const LAST_NAMES_ASKED: Skewing = Skewing { a: 255, c: 223 };

/// Draws for tables or transactions of a scale.
pub(super) struct Chance {
    rng: Rng,
    pub scale: Scale,
}

impl Chance {
    pub(super) fn new(scale: Scale, rng: Rng) -> Chance {
        Chance { rng, scale }
    }

    /// A number of the range, all alike.
    pub(super) fn number(&mut self, range: RangeInclusive<u32>) -> u32 {
        let (first, last) = range.into_inner();
        first + self.rng.below(u64::from(last - first) + 1) as u32
    }

    /// Whether an event of `percent` in 100 happens.
    pub(super) fn percent(&mut self, percent: u32) -> bool {
        self.rng.percent(percent)
    }

    /// The index of one of `weights`, as often as its weight says.
    pub(super) fn weighted(&mut self, weights: &[u32]) -> usize {
        self.rng.weighted(weights)
    }

    /// NURand: a number of the range, some more often than others.
    fn skewed(&mut self, skewing: Skewing, range: RangeInclusive<u32>) -> u32 {
        let (first, last) = range.into_inner();
        let span = u64::from(last - first) + 1;
        let either = self.rng.below(skewing.a + 1) | (u64::from(first) + self.rng.below(span));
        first + ((either + skewing.c) % span) as u32
    }

    /// The number of a customer to ask for.
    pub(super) fn customer(&mut self) -> u32 {
        let last = self.scale.customers();
        self.skewed(CUSTOMERS, 1..=last)
    }

    /// The number of an item to ask for.
    pub(super) fn item(&mut self) -> u32 {
        let last = self.scale.items();
        self.skewed(ITEMS, 1..=last)
    }

    /// The last name of customers to ask for.
    pub(super) fn last_name(&mut self) -> String {
        let last = self.scale.last_names() - 1;
        last_name(self.skewed(LAST_NAMES_ASKED, 0..=last))
    }

    /// The last name of a customer that is made: the first thousand customers of a district have one each.
    pub(super) fn last_name_of(&mut self, customer: u32) -> String {
        let names = self.scale.last_names();
        match customer <= names {
            true => last_name(customer - 1),
            false => last_name(self.skewed(LAST_NAMES_LOADED, 0..=names - 1)),
        }
    }

    /// A district of the warehouse.
    pub(super) fn district_of(&mut self, warehouse: u32) -> DistrictId {
        DistrictId { warehouse, district: self.number(1..=DISTRICTS.into()) as u8 }
    }

    /// A warehouse other than `home`, if there is one.
    pub(super) fn other_warehouse(&mut self, home: u32) -> u32 {
        match self.scale.warehouses {
            1 => home,
            warehouses => {
                let drawn = self.number(1..=warehouses - 1);
                if drawn < home { drawn } else { drawn + 1 }
            }
        }
    }

    /// Letters and digits, as many as the range says.
    pub(super) fn text(&mut self, len: RangeInclusive<u32>) -> String {
        self.characters(LETTERS, len)
    }

    /// Digits.
    pub(super) fn digits(&mut self, len: u32) -> String {
        self.characters(DIGITS, len..=len)
    }

    /// Letters and digits, to fill a row.
    pub(super) fn letters<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| *self.rng.pick(LETTERS))
    }

    /// The data of an item or of stock.
    pub(super) fn data(&mut self) -> String {
        let mut data = self.text(26..=50);
        if self.percent(10) {
            let at = self.rng.index(data.len() - ORIGINAL.len() + 1);
            data.replace_range(at..at + ORIGINAL.len(), ORIGINAL);
        }
        data
    }

    pub(super) fn address(&mut self) -> Address {
        Address {
            streets: [self.text(10..=20), self.text(10..=20)],
            city: self.text(10..=20),
            state: self.characters(&LETTERS[..26], 2..=2),
            zip: format!("{}11111", self.digits(4)),
        }
    }

    fn characters(&mut self, of: &[u8], len: RangeInclusive<u32>) -> String {
        let len = self.number(len);
        (0..len).map(|_| char::from(*self.rng.pick(of))).collect()
    }
}

/// The last name of a number below 1000.
fn last_name(number: u32) -> String {
    let digits = [number / 100, number / 10 % 10, number % 10];
    digits.map(|digit| SYLLABLES[digit as usize]).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chance(warehouses: u32, percent: u32) -> Chance {
        Chance::new(Scale { warehouses, percent }, Rng::new(7))
    }

    #[test]
    fn last_names_are_those_of_the_standard() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        let mut chance = chance(1, 100);
        assert_eq!(chance.last_name_of(1), "BARBARBAR");
        assert_eq!(chance.last_name_of(1000), "EINGEINGEING");
        let apart = LAST_NAMES_ASKED.c - LAST_NAMES_LOADED.c;
        assert!((65..=119).contains(&apart) && apart != 96 && apart != 112);
    }

    #[test]
    fn draws_keep_to_their_ranges_and_some_come_more_often() {
        let mut chance = chance(1, 100);
        let mut counts = vec![0_u32; 3001];
        for _ in 0..300_000 {
            counts[chance.customer() as usize] += 1;
            assert!((1..=100_000).contains(&chance.item()));
        }
        assert_eq!(counts[0], 0);
        let most = *counts.iter().max().expect("some");
        assert!(most > 300, "all alike would be 100 each: {most}");
        let small = &mut self::chance(1, 1);
        assert!((0..1000).all(|_| (1..=30).contains(&small.customer())));
        let known: Vec<String> = (1..=30).map(|customer| small.last_name_of(customer)).collect();
        assert!((0..1000).all(|_| known.contains(&small.last_name())));
    }

    #[test]
    fn other_warehouses_are_not_that_of_home() {
        let mut three = chance(3, 1);
        let mut seen = [0; 4];
        (0..300).for_each(|_| seen[three.other_warehouse(2) as usize] += 1);
        assert!(seen[1] > 100 && seen[3] > 100 && seen[1] + seen[3] == 300, "{seen:?}");
        assert_eq!(chance(1, 1).other_warehouse(1), 1);
    }

    #[test]
    fn one_in_ten_texts_is_original() {
        let mut chance = chance(1, 1);
        let texts: Vec<String> = (0..1000).map(|_| chance.data()).collect();
        assert!(texts.iter().all(|text| (26..=50).contains(&text.len())));
        let original = texts.iter().filter(|text| text.contains(ORIGINAL)).count();
        assert!((60..140).contains(&original), "{original}");
    }
}
