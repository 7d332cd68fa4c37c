//! What a server has of the companies.

use zeroize::Zeroizing;

use crate::wire::{Refusal, UploadId};

/// The uploads of a round at one server. Each company has one, and it stays as it came.
pub(crate) struct Ledger {
    entries: Vec<Option<Entry>>,
    is_closed: bool,
}

struct Entry {
    id: UploadId,
    share: Zeroizing<u32>,
}

/// What became of an upload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Entered {
    /// It is there now.
    New,
    /// It was there before: the company has come again, for instance because its link was lost.
    Again,
}

impl Ledger {
    /// Makes the ledger of so many companies.
    pub(crate) fn new(companies: usize) -> Self {
        let entries = (0..companies).map(|_| None).collect();
        Self {
            entries,
            is_closed: false,
        }
    }

    /// Takes an upload of company `number`.
    ///
    /// # Errors
    /// [`Refusal::Twice`] after another upload; [`Refusal::Closed`] after the end.
    pub(crate) fn enter(
        &mut self,
        number: u16,
        id: UploadId,
        share: Zeroizing<u32>,
    ) -> Result<Entered, Refusal> {
        let place = usize::from(number);
        match self.entries.get_mut(place) {
            Some(Some(entry)) if entry.id == id => Ok(Entered::Again),
            Some(Some(_)) => Err(Refusal::Twice),
            Some(entry) if !self.is_closed => {
                *entry = Some(Entry { id, share });
                Ok(Entered::New)
            }
            _ => Err(Refusal::Closed),
        }
    }

    /// Takes no more of them.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Returns the shares of these companies, in this order; `None` if one of them is not there.
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
        let mut ledger = Ledger::new(3);
        let share = |value| Zeroizing::new(value);
        assert_eq!(ledger.enter(1, [1; 16], share(10)), Ok(Entered::New));
        assert_eq!(ledger.enter(1, [1; 16], share(11)), Ok(Entered::Again));
        assert_eq!(ledger.enter(1, [2; 16], share(12)), Err(Refusal::Twice));
        assert_eq!(ledger.enter(2, [2; 16], share(20)), Ok(Entered::New));
        // The first one stays.
        assert_eq!(*ledger.shares(&[2, 1]).unwrap(), [20, 10]);
        assert!(ledger.shares(&[0]).is_none());
        assert!(ledger.shares(&[3]).is_none());
        ledger.close();
        assert_eq!(ledger.enter(0, [3; 16], share(1)), Err(Refusal::Closed));
        assert_eq!(ledger.enter(1, [1; 16], share(1)), Ok(Entered::Again));
        assert_eq!(ledger.enter(7, [1; 16], share(1)), Err(Refusal::Closed));
    }
}
