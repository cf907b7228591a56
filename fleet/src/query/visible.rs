//! The files that count, as a store of their own for the engine: what it lists is what the manifests say.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::DateTime;
use futures::stream::{self, BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::manifest::FileEntry;

/// The store of an engine.
#[derive(Debug)]
pub(crate) struct Visible {
    objects: Arc<dyn ObjectStore>,
    /// By path.
    files: Vec<ObjectMeta>,
}

impl Visible {
    pub(crate) fn new<'a>(
        objects: Arc<dyn ObjectStore>,
        files: impl Iterator<Item = &'a FileEntry>,
    ) -> Visible {
        let files = files.map(|file| ObjectMeta {
            location: Path::from(file.path.as_str()),
            // Files never change.
            last_modified: DateTime::UNIX_EPOCH,
            size: file.bytes,
            e_tag: None,
            version: None,
        });
        let mut files: Vec<ObjectMeta> = files.collect();
        files.sort_by(|one, other| one.location.cmp(&other.location));
        Visible { objects, files }
    }

    fn below(&self, prefix: Option<&Path>) -> Vec<ObjectMeta> {
        let all = self.files.iter();
        let inside =
            |meta: &&ObjectMeta| prefix.is_none_or(|prefix| meta.location.prefix_matches(prefix));
        all.filter(inside).cloned().collect()
    }
}

impl fmt::Display for Visible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the files that count in {}", self.objects)
    }
}

fn read_only<T>() -> Result<T> {
    Err(Error::NotSupported {
        source: "queries do not write".into(),
    })
}

#[async_trait]
impl ObjectStore for Visible {
    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        read_only()
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        read_only()
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.objects.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        stream::once(async { read_only() }).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::iter(self.below(prefix).into_iter().map(Ok)).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let root = Path::default();
        let prefix = prefix.unwrap_or(&root);
        let mut found = ListResult {
            common_prefixes: Vec::new(),
            objects: Vec::new(),
        };
        for meta in self.below(Some(prefix)) {
            let parts: Vec<_> = meta
                .location
                .prefix_match(prefix)
                .into_iter()
                .flatten()
                .collect();
            match parts.as_slice() {
                [] => {}
                [_] => found.objects.push(meta),
                [folder, ..] => {
                    let folder = prefix.clone().join(folder.as_ref());
                    if found.common_prefixes.last() != Some(&folder) {
                        found.common_prefixes.push(folder);
                    }
                }
            }
        }
        Ok(found)
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        read_only()
    }
}
