//! Changes of one key that depend on its value.

use base::Result;

use super::Keyspace;
use super::transaction::{TransactionOptions, transact};

impl Keyspace {
    /// Sets `key` to what `change` makes of its value, as one step: no other write comes between. `None` stands for no value, and
    /// deletes it. Tells what the key has now.
    ///
    /// `change` is called again if another writer was faster, so it should do nothing but answer.
    ///
    /// ```
    /// # use strandline::{Db, Options, PmSource};
    /// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
    /// # let db = Db::open("unused-for-heap", options)?;
    /// let stock = db.default_keyspace();
    /// let one_more = |old: Option<&[u8]>| Some(vec![1 + old.map_or(0, |old| old[0])]);
    /// stock.update("apples", one_more)?;
    /// assert_eq!(stock.update("apples", one_more)?, Some(vec![2]));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get) and [`Db::write`](crate::Db::write).
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        transact(&self.handle, TransactionOptions::new(), |transaction| {
            let old = transaction.get_for_update(self, key)?;
            let new = change(old.as_deref());
            match &new {
                Some(new) => transaction.put(self, key, new)?,
                None if old.is_some() => transaction.delete(self, key)?,
                None => {}
            }
            Ok(new)
        })
    }

    /// Sets `key` to `new` if its value is `expected`, as one step; `None` stands for no value. Tells whether it was.
    ///
    /// ```
    /// # use strandline::{Db, Options, PmSource};
    /// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
    /// # let db = Db::open("unused-for-heap", options)?;
    /// let locks = db.default_keyspace();
    /// assert!(locks.compare_and_swap("door", None, Some(b"ada"))?);
    /// assert!(!locks.compare_and_swap("door", None, Some(b"bob"))?);
    /// assert!(locks.compare_and_swap("door", Some(b"ada"), None)?);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::update`].
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let key = key.as_ref();
        transact(&self.handle, TransactionOptions::new(), |transaction| {
            let is_expected = transaction.get_for_update(self, key)?.as_deref() == expected;
            match new {
                _ if !is_expected => {}
                Some(new) => transaction.put(self, key, new)?,
                None => transaction.delete(self, key)?,
            }
            Ok(is_expected)
        })
    }
}
