//! A folder or a bucket of files. A file appears whole or not at all. A file of `Store::make` is never replaced: if two
//! processes make it, the second call returns `false`.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt};
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{
    Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, WriteMultipart,
};
use tokio::runtime::Runtime;

/// Bytes of a part of a large file on its way to a bucket.
const PART: usize = 8 << 20;
/// The most tries of an operation on a bucket. The library itself repeats single requests more often.
const TRIES: u32 = 3;
/// Requests that are made at the same time.
pub(crate) const REQUESTS: usize = 32;
/// The folder of files that are not whole yet.
const TEMPORARY: &str = "_temporary";

/// Where the tables are.
pub(crate) struct Store {
    pub(crate) objects: Arc<dyn ObjectStore>,
    /// As it was named.
    pub(crate) name: String,
    /// The folder, if it is one.
    folder: Option<PathBuf>,
    pub(crate) runtime: Runtime,
}

impl Store {
    /// Opens a folder, or `s3://bucket/prefix`. `make`: a folder that is not there is made.
    pub(crate) fn open(place: &str, make: bool) -> anyhow::Result<Store> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(fdr_cli::fleet::jobs())
            .thread_stack_size(8 << 20)
            .enable_all()
            .build()
            .context("threads can't be started")?;
        let name = place.trim_end_matches('/').to_owned();
        if place.starts_with("s3://") {
            let url = url::Url::parse(place).with_context(|| name.clone())?;
            let bucket = AmazonS3Builder::from_env().with_url(place).build();
            let bucket = bucket.with_context(|| name.clone())?;
            let objects: Arc<dyn ObjectStore> = match url.path().trim_matches('/') {
                "" => Arc::new(bucket),
                prefix => Arc::new(PrefixStore::new(bucket, prefix)),
            };
            return Ok(Store {
                objects,
                name,
                folder: None,
                runtime,
            });
        }
        if place.contains("://") {
            bail!("{place}: not a folder, and not s3://BUCKET/PREFIX");
        }
        let folder = FilePath::new(place);
        if make {
            fs::create_dir_all(folder).with_context(|| name.clone())?;
        }
        if !folder.is_dir() {
            bail!("{place}: no such folder");
        }
        let objects = LocalFileSystem::new_with_prefix(folder).with_context(|| name.clone())?;
        Ok(Store {
            objects: Arc::new(objects),
            name,
            folder: Some(folder.to_owned()),
            runtime,
        })
    }

    /// The name of a file in it, for people.
    pub(crate) fn name_of(&self, path: &str) -> String {
        format!("{}/{path}", self.name)
    }

    /// All files below a folder.
    pub(crate) fn list(&self, folder: &str) -> anyhow::Result<Vec<ObjectMeta>> {
        let path = Path::from(folder);
        let list = || {
            let listed = self.objects.list(Some(&path)).try_collect::<Vec<_>>();
            self.runtime.block_on(listed)
        };
        self.again(list).with_context(|| self.name_of(folder))
    }

    /// The names of the folders directly below a folder.
    #[cfg(feature = "query")]
    pub(crate) fn folders(&self, folder: Option<&str>) -> anyhow::Result<Vec<String>> {
        let prefix = folder.map(Path::from);
        let list = || {
            let listed = self.objects.list_with_delimiter(prefix.as_ref());
            self.runtime.block_on(listed)
        };
        let listed = self.again(list);
        let listed = listed.with_context(|| self.name_of(folder.unwrap_or_default()))?;
        let names = listed.common_prefixes.iter();
        Ok(names
            .filter_map(|path| Some(path.filename()?.to_owned()))
            .collect())
    }

    /// Small files, in the order of the paths. `None`: there is no such file.
    pub(crate) fn read_all(&self, paths: &[String]) -> anyhow::Result<Vec<Option<Vec<u8>>>> {
        let read = |path: String| {
            let objects = self.objects.clone();
            async move {
                let got = match objects.get(&Path::from(path.as_str())).await {
                    Err(Error::NotFound { .. }) => return anyhow::Ok(None),
                    got => got.with_context(|| path.clone())?,
                };
                let bytes = got.bytes().await.with_context(|| path.clone())?;
                Ok(Some(bytes.to_vec()))
            }
        };
        let all = futures::stream::iter(paths.iter().cloned().map(read)).buffered(REQUESTS);
        let all = self.runtime.block_on(all.try_collect::<Vec<_>>());
        all.with_context(|| self.name.clone())
    }

    /// Makes a small file. `false`: there is another one with that name, and it stays.
    pub(crate) fn make(&self, path: &str, bytes: Vec<u8>) -> anyhow::Result<bool> {
        let target = Path::from(path);
        let put = || {
            let options = PutOptions::from(PutMode::Create);
            let payload = PutPayload::from(bytes.clone());
            let put = self.objects.put_opts(&target, payload, options);
            self.runtime.block_on(put)
        };
        match self.again(put) {
            Ok(_) => Ok(true),
            // A request is made again if its answer is lost. Then the file that exists may be ours. If the file has
            // disappeared meanwhile, it may have been our own commit. A manifest may have taken over its list of files.
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                let found = self.read_all(&[path.to_owned()])?.pop().flatten();
                Ok(found.is_none_or(|found| found == bytes))
            }
            Err(error) => Err(error).with_context(|| self.name_of(path)),
        }
    }

    /// Repeats a failed request to a bucket, in addition to the library's own repetitions.
    fn again<T>(&self, mut what: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        let mut tries = 1;
        loop {
            match what() {
                Err(Error::Generic { .. }) if self.folder.is_none() && tries < TRIES => tries += 1,
                done => return done,
            }
        }
    }

    /// Removes files; those that are not there are as good as removed.
    pub(crate) fn remove(&self, paths: &[String]) -> anyhow::Result<()> {
        let remove = |path: String| {
            let objects = self.objects.clone();
            async move {
                match objects.delete(&Path::from(path.as_str())).await {
                    Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
                    Err(error) => Err(error).with_context(|| path.clone()),
                }
            }
        };
        let all = futures::stream::iter(paths.iter().cloned().map(remove));
        let all = all.buffer_unordered(REQUESTS).try_collect::<Vec<()>>();
        self.runtime
            .block_on(all)
            .with_context(|| self.name.clone())?;
        Ok(())
    }

    /// A new file that is not part of the store yet: see [`Store::publish`].
    pub(crate) fn temporary(&self) -> anyhow::Result<(PathBuf, File)> {
        let folder = match &self.folder {
            Some(folder) => folder.join(TEMPORARY),
            None => std::env::temp_dir().join("fdr-fleet"),
        };
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let path = folder.join(format!("{}.parquet", uuid::Uuid::new_v4().simple()));
        let file = File::create_new(&path).with_context(|| path.display().to_string())?;
        Ok((path, file))
    }

    /// Makes a finished temporary file part of the store under a name that no other file has. It is there whole or not
    /// at all.
    pub(crate) fn publish(&self, temporary: &FilePath, path: &str) -> anyhow::Result<()> {
        if let Some(folder) = &self.folder {
            let to = folder.join(path);
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
            }
            return fs::rename(temporary, &to).with_context(|| to.display().to_string());
        }
        // If the answer to the last request is lost, the server does not know the request when it is made again.
        let mut tries = 1;
        while let Err(error) = self.runtime.block_on(self.upload(temporary, path)) {
            if tries == TRIES {
                return Err(error).with_context(|| self.name_of(path));
            }
            tries += 1;
        }
        fs::remove_file(temporary).with_context(|| temporary.display().to_string())
    }

    /// Sends a file to a bucket, in parts.
    async fn upload(&self, temporary: &FilePath, path: &str) -> anyhow::Result<()> {
        let mut file = File::open(temporary).with_context(|| temporary.display().to_string())?;
        let upload = self.objects.put_multipart(&Path::from(path)).await?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART);
        let mut buffer = vec![0; PART];
        loop {
            let count = file.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            upload.wait_for_capacity(4).await?;
            upload.write(&buffer[..count]);
        }
        upload.finish().await?;
        Ok(())
    }

    /// Removes temporary files of exports that were killed, if they are older than that.
    pub(crate) fn remove_temporary(&self, older: std::time::Duration) -> anyhow::Result<u64> {
        let Some(folder) = self.folder.as_ref().map(|folder| folder.join(TEMPORARY)) else {
            return Ok(0);
        };
        let Ok(entries) = fs::read_dir(&folder) else {
            return Ok(0);
        };
        let mut removed = 0;
        for entry in entries.flatten() {
            let age = entry.metadata().and_then(|meta| meta.modified());
            let age = age.ok().and_then(|modified| modified.elapsed().ok());
            if age.is_some_and(|age| age >= older) && fs::remove_file(entry.path()).is_ok() {
                removed += 1;
            }
        }
        Ok(removed)
    }
}
