//! The flags of YCSB's core workloads, by the names of its properties.

use super::table::{BOOLEAN, Flag, boolean, number, positive, put, size};
use crate::config::Config;
use crate::data::keys::Form;
use crate::data::ycsb::RequestDistribution;
use crate::ycsb::InsertOrder;

const COUNT: &str = "count, 1 or more";

pub(crate) const YCSB_FLAGS: &[Flag] = &[
    Flag {
        name: "ycsb_request_distribution",
        takes: "zipfian, latest or uniform",
        doc: "Which records are read, updated and scanned from: a few hot ones that lie all over the store, the newest most of \
              all, or all alike [latest for ycsb-d, else zipfian].",
        set: |config, text| {
            let named = RequestDistribution::named(text);
            put(&mut config.ycsb.request_distribution, named.map(Some))
        },
    },
    Flag {
        name: "ycsb_zipfian_constant",
        takes: "a number above 0, to 10",
        doc: "The exponent of Zipf's law, for zipfian and latest [0.99].",
        set: |config, text| {
            let constant = number(text).filter(|constant| *constant > 0.0 && *constant <= 10.0);
            put(&mut config.ycsb.zipfian_constant, constant)
        },
    },
    Flag {
        name: "ycsb_fields",
        takes: COUNT,
        doc: "Fields of a record, which are one value [10].",
        set: |config, text| {
            let fields = positive(text).filter(|fields| *fields <= 1000);
            put(&mut config.ycsb.fields, fields.map(|fields| fields as usize))
        },
    },
    Flag {
        name: "ycsb_field_bytes",
        takes: "bytes",
        doc: "Bytes of a field; if value_size is given, the fields share that out instead [100].",
        set: |config, text| {
            put(&mut config.ycsb.field_bytes, size(text).filter(|bytes| *bytes > 0))
        },
    },
    Flag {
        name: "ycsb_write_all_fields",
        takes: BOOLEAN,
        doc: "An update writes the whole record; false, YCSB's default: it reads the record, changes one field and writes it [true].",
        set: |config, text| put(&mut config.ycsb.write_all_fields, boolean(text)),
    },
    Flag {
        name: "ycsb_scan_max",
        takes: COUNT,
        doc: "Entries of the longest scan of ycsb-e; the shortest has one [100].",
        set: |config, text| put(&mut config.ycsb.scan_max, positive(text)),
    },
    Flag {
        name: "ycsb_order",
        takes: "hashed or ordered",
        doc: "Records have keys anywhere, or in the order in which they are inserted [hashed].",
        set: |config, text| {
            let order = match text {
                "hashed" => InsertOrder::Hashed,
                "ordered" => InsertOrder::Ordered,
                _ => return None,
            };
            put(&mut config.ycsb.order, Some(order))
        },
    },
    Flag {
        name: "ycsb_keyspaces",
        takes: COUNT,
        doc: "Keyspaces that records are spread over by a hash; they are made where they are not there [1: the default keyspace].",
        set: |config, text| {
            put(&mut config.ycsb.keyspaces, positive(text).filter(|count| *count <= 1024))
        },
    },
];

/// Bytes of YCSB's keys: `user`, and all digits of a hash.
const USER_KEY: usize = 23;
/// Bytes of the shortest key: a hash.
const KEY_MIN: usize = 8;

/// Gives records the keys and values of YCSB, as far as other flags do not say what these are.
pub(super) fn complete(config: &mut Config) -> Result<(), String> {
    let given = |name: &str| config.given.iter().any(|(given, _)| given == name);
    if config.key_form == Form::Path {
        return Err("--keys=path: keys of YCSB are numbers; leave it out".into());
    }
    if config.key_size < KEY_MIN {
        let size = config.key_size;
        return Err(format!(
            "--key_size={size}: keys of YCSB hold a hash of {KEY_MIN} bytes; raise it"
        ));
    }
    let (has_key, has_value) = (given("key_size"), given("value_size"));
    if !has_key {
        config.key_size = USER_KEY;
    }
    if config.key_size >= USER_KEY {
        config.key_form = Form::User;
    }
    if !has_value {
        let bytes = config.ycsb.fields.saturating_mul(config.ycsb.field_bytes);
        if bytes > 1 << 30 {
            return Err(format!("--ycsb_field_bytes: records of {bytes} bytes; lower it"));
        }
        config.value_size = bytes;
    }
    Ok(())
}
