//! [`forward_names!`](crate::forward_names): for file systems that wrap another.

/// Inside of an `impl Fs`, what has to do with names alone, handed on to the file system in the field that is named.
/// `Path` and `base::Result` are to be in scope.
#[macro_export]
macro_rules! forward_names {
    ($inner:tt) => {
        fn create_dir_all(&self, dir: &Path) -> Result<()> {
            self.$inner.create_dir_all(dir)
        }

        fn list(&self, dir: &Path) -> Result<Vec<String>> {
            self.$inner.list(dir)
        }

        fn exists(&self, path: &Path) -> Result<bool> {
            self.$inner.exists(path)
        }

        fn rename(&self, from: &Path, to: &Path) -> Result<()> {
            self.$inner.rename(from, to)
        }

        fn link(&self, from: &Path, to: &Path) -> Result<()> {
            self.$inner.link(from, to)
        }

        fn remove(&self, path: &Path) -> Result<()> {
            self.$inner.remove(path)
        }

        fn remove_dir(&self, dir: &Path) -> Result<()> {
            self.$inner.remove_dir(dir)
        }

        fn free_bytes(&self, dir: &Path) -> Result<u64> {
            self.$inner.free_bytes(dir)
        }
    };
}
