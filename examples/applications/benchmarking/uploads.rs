//! The uploads that a server has received.

use zeroize::Zeroizing;

use crate::wire::{Refusal, UploadId};

/// The uploads of a round at one server. The first upload of a company is final.
pub(crate) struct Uploads {
    entries: Vec<Option<Entry>>,
    is_closed: bool,
}

struct Entry {
    id: UploadId,
    share: Zeroizing<u32>,
}

/// Whether an upload was new.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stored {
    /// The upload was stored.
    New,
    /// The same upload was stored before: the company has reconnected.
    Again,
}

impl Uploads {
    /// Creates an empty set of uploads for this number of companies.
    pub(crate) fn new(companies: usize) -> Self {
        let entries = (0..companies).map(|_| None).collect();
        Self {
            entries,
            is_closed: false,
        }
    }

    /// Stores an upload of company `number`.
    ///
    /// # Errors
    /// Returns [`Refusal::Twice`] if the company has made a different upload before. Returns
    /// [`Refusal::Closed`] if the upload is new and [`close`](Self::close) was called before.
    pub(crate) fn store(
        &mut self,
        number: u16,
        id: UploadId,
        share: Zeroizing<u32>,
    ) -> Result<Stored, Refusal> {
        let place = usize::from(number);
        match self.entries.get_mut(place) {
            Some(Some(entry)) if entry.id == id => Ok(Stored::Again),
            Some(Some(_)) => Err(Refusal::Twice),
            Some(entry) if !self.is_closed => {
                *entry = Some(Entry { id, share });
                Ok(Stored::New)
            }
            _ => Err(Refusal::Closed),
        }
    }

    /// Stops accepting new uploads.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Returns the shares of these companies in the given order. `None` if a company has not
    /// uploaded.
    pub(crate) fn shares(&self, companies: &[u16]) -> Option<Zeroizing<Vec<u32>>> {
        let share = |&number: &u16| Some(*self.entries.get(usize::from(number))?.as_ref()?.share);
        let mut shares = Zeroizing::new(Vec::with_capacity(companies.len()));
        for number in companies {
            shares.push(share(number)?);
        }
        Some(shares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_company_uploads_once() {
        let mut uploads = Uploads::new(3);
        let share = |value| Zeroizing::new(value);
        assert_eq!(uploads.store(1, [1; 16], share(10)), Ok(Stored::New));
        assert_eq!(uploads.store(1, [1; 16], share(11)), Ok(Stored::Again));
        assert_eq!(uploads.store(1, [2; 16], share(12)), Err(Refusal::Twice));
        assert_eq!(uploads.store(2, [2; 16], share(20)), Ok(Stored::New));
        // The first upload is kept.
        assert_eq!(*uploads.shares(&[2, 1]).unwrap(), [20, 10]);
        assert!(uploads.shares(&[0]).is_none());
        assert!(uploads.shares(&[3]).is_none());
        uploads.close();
        assert_eq!(uploads.store(0, [3; 16], share(1)), Err(Refusal::Closed));
        assert_eq!(uploads.store(1, [1; 16], share(1)), Ok(Stored::Again));
        assert_eq!(uploads.store(7, [1; 16], share(1)), Err(Refusal::Closed));
    }
}
