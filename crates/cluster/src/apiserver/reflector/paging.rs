//! Lists in pages.

use hyper::Response;
use hyper::body::Incoming;
use prost::bytes::Bytes;

use super::super::answer::{Arrived, encoding, next_chunk};
use super::super::failure::Failure;
use super::super::list::ListDecoder;
use super::super::resource::escape;
use super::super::wire::{Encoding, ListMeta};
use super::{Listing, Position, Reflector, Step, known};

/// Objects a page.
const PAGE: u32 = 500;

impl Reflector {
    /// Lists in pages, or in one piece where the server answers from its cache.
    pub(super) async fn list(&mut self) -> Result<(), Step> {
        let mut listing = self.new_listing();
        let mut rest = String::new();
        loop {
            let query = match (
                &*rest,
                self.position == Position::ListFromQuorum || self.link.encoding() == Encoding::Json,
            ) {
                ("", false) => format!("limit={PAGE}&resourceVersion=0"),
                ("", true) => format!("limit={PAGE}"),
                (rest, _) => format!("limit={PAGE}&continue={}", escape(rest)),
            };
            let response = self.link.get(&self.path(&query)).await?;
            let meta = self.take_page(response, &mut listing).await?;
            if meta.rest.is_empty() {
                let version = Some(meta.resource_version).filter(|version| !version.is_empty());
                return Ok(self.finish_list(listing, known(version)?)?);
            }
            rest = meta.rest;
        }
    }

    async fn take_page(
        &mut self,
        response: Response<Incoming>,
        listing: &mut Listing,
    ) -> Result<ListMeta, Step> {
        let encoding = encoding(&response)?;
        let mut decoder = ListDecoder::new(encoding);
        let mut body = response.into_body();
        let silence = self.link.timing.list_silence;
        loop {
            let chunk = match next_chunk(&mut body, silence).await? {
                Arrived::Data(chunk) => chunk,
                Arrived::End => break,
                Arrived::Nothing => return Err(Failure::Stalled(silence).into()),
            };
            self.link.observer.heard(self.resource.kind);
            let mut items = Vec::new();
            decoder.feed(&chunk, &mut |item| items.push(item)).map_err(Failure::from)?;
            self.take_items(items, encoding, listing)?;
        }
        let mut items = Vec::new();
        let meta = decoder.finish(&mut |item| items.push(item)).map_err(Failure::from)?;
        self.take_items(items, encoding, listing)?;
        Ok(meta)
    }

    fn take_items(
        &mut self,
        items: Vec<Bytes>,
        encoding: Encoding,
        listing: &mut Listing,
    ) -> Result<(), Step> {
        let mut changes = Vec::with_capacity(items.len());
        for item in items {
            listing.note(self.take_object(item, encoding, &mut changes).key);
        }
        Ok(self.hand_over(changes)?)
    }
}
