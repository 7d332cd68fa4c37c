//! Garbling and evaluating a batch on several threads. The caller provides the function that starts
//! a thread.
//!
//! The evaluations of a batch do not depend on each other. With `n` threads, each thread computes
//! every `n`-th group of evaluations that are garbled together. The messages are sent in the same
//! order, with the same content, as with one thread.

use std::{
    io, iter,
    sync::mpsc::{self, Receiver, Sender, SyncSender},
};

use bytes::Bytes;
use transpute_circuit::Bits;
use transpute_garble::{EvaluatedOutputs, Evaluator, GarbleError, GarbledOutputs, Garbler, Label};
use zeroize::Zeroizing;

use crate::SessionError;

/// A function that starts a thread with this name, which runs the closure.
pub type Spawner = fn(&str, Box<dyn FnOnce() + Send>) -> io::Result<()>;

/// Maximum number of bytes of tables that wait in the queue of one thread. If the tables of a group
/// did not fit, threads would wait for each other.
const TABLES_WAITING: usize = 32 << 20;

/// Returns the maximum number of chunks that wait in the queue of one thread.
fn chunks_waiting(chunk_len: usize) -> usize {
    (TABLES_WAITING / chunk_len).clamp(1, 4096)
}

/// Threads that garble the groups of a batch.
pub(crate) struct GarblingThreads {
    threads: Vec<GarblingThread>,
    /// Number of groups that were passed to threads.
    begun: u64,
    /// Number of groups whose chunks and outputs were all received from threads.
    done: u64,
}

struct GarblingThread {
    groups: Sender<(u64, Vec<Bits>)>,
    products: Receiver<Result<Product, GarbleError>>,
    /// Returns the buffers of sent chunks to the thread, for reuse.
    empty: Sender<Vec<u8>>,
}

/// A result of a garbling thread. For each group, it sends the chunks and then the outputs.
enum Product {
    Chunk(Vec<u8>),
    Outputs(Vec<GarbledOutputs>),
}

impl GarblingThreads {
    /// Starts a thread for each garbler. All garblers must have the same seed.
    ///
    /// # Errors
    /// Returns [`SessionError::Thread`].
    pub(crate) fn start(
        garblers: Vec<Garbler>,
        chunk_len: usize,
        spawner: Option<Spawner>,
    ) -> Result<Self, SessionError> {
        let threads = garblers.into_iter().map(|garbler| {
            let (groups, given) = mpsc::channel();
            let (sender, products) = mpsc::sync_channel(chunks_waiting(chunk_len));
            let (empty, returned) = mpsc::channel();
            spawn(spawner, "garbling", move || {
                // This fails only if the receiver of the results was dropped.
                let _ = garble(garbler, chunk_len, &given, &sender, &returned);
            })?;
            Ok(GarblingThread {
                groups,
                products,
                empty,
            })
        });
        Ok(Self {
            threads: threads.collect::<Result<_, SessionError>>()?,
            begun: 0,
            done: 0,
        })
    }

    /// Passes the next group to a thread. Its first evaluation is `instance`.
    pub(crate) fn begin(&mut self, instance: u64, bits: Vec<Bits>) -> Result<(), SessionError> {
        let thread = &self.threads[(self.begun % self.threads.len() as u64) as usize];
        self.begun += 1;
        let given = thread.groups.send((instance, bits));
        given.map_err(|_| SessionError::Cancelled)
    }

    /// Waits for the next chunk, in the order of evaluations, and appends it to `out`.
    pub(crate) fn chunk(&mut self, out: &mut Vec<u8>) -> Result<(), SessionError> {
        match self.receive()? {
            Product::Chunk(chunk) => {
                out.extend_from_slice(&chunk);
                // Sending fails only if the thread has ended. Then it needs no buffer.
                let _ = self.due().empty.send(chunk);
                Ok(())
            }
            Product::Outputs(_) => Err(SessionError::Cancelled),
        }
    }

    /// Returns the outputs of the group whose chunks have all been taken.
    pub(crate) fn outputs(&mut self) -> Result<Vec<GarbledOutputs>, SessionError> {
        match self.receive()? {
            Product::Outputs(outputs) => {
                self.done += 1;
                Ok(outputs)
            }
            Product::Chunk(_) => Err(SessionError::Cancelled),
        }
    }

    fn due(&self) -> &GarblingThread {
        &self.threads[(self.done % self.threads.len() as u64) as usize]
    }

    fn receive(&self) -> Result<Product, SessionError> {
        let product = self.due().products.recv();
        Ok(product.map_err(|_| SessionError::Cancelled)??)
    }
}

/// The error of a thread whose receiver of results was dropped.
struct ReceiverGone;

fn garble(
    mut garbler: Garbler,
    chunk_len: usize,
    groups: &Receiver<(u64, Vec<Bits>)>,
    products: &SyncSender<Result<Product, GarbleError>>,
    returned: &Receiver<Vec<u8>>,
) -> Result<(), ReceiverGone> {
    let tell = |product| products.send(product).map_err(|_| ReceiverGone);
    for (instance, bits) in groups {
        let begun = garbler.skip_to(instance);
        if let Err(error) = begun.and_then(|()| garbler.begin_side_by_side(&bits)) {
            return tell(Err(error));
        }
        while !garbler.is_instance_done() {
            let mut chunk = returned.try_recv().unwrap_or_default();
            chunk.clear();
            let garbled = garbler.garble_chunk(chunk_len, &mut chunk);
            tell(garbled.map(|_| Product::Chunk(chunk)))?;
        }
        let outputs = iter::repeat_with(|| garbler.take_outputs()).take(bits.len());
        tell(outputs.collect::<Result<_, _>>().map(Product::Outputs))?;
    }
    Ok(())
}

/// Threads that evaluate the groups of a batch.
pub(crate) struct EvaluatingThreads {
    threads: Vec<EvaluatingThread>,
    /// Number of started groups.
    begun: u64,
    /// Number of groups whose outputs were received from threads.
    done: u64,
}

struct EvaluatingThread {
    tasks: SyncSender<Task>,
    outputs: Receiver<Result<Vec<EvaluatedOutputs>, GarbleError>>,
}

enum Task {
    Begin(Group),
    Chunk(Bytes),
}

/// A group of evaluations that are evaluated together, with their labels.
pub(crate) struct Group {
    /// The number of the first evaluation.
    pub(crate) instance: u64,
    pub(crate) lanes: usize,
    /// Labels of the garbler's inputs, if they are sent.
    pub(crate) given: Option<Zeroizing<Vec<Label>>>,
    /// Labels of the evaluator's inputs.
    pub(crate) labels: Zeroizing<Vec<Label>>,
}

impl EvaluatingThreads {
    /// Starts a thread for each evaluator.
    ///
    /// # Errors
    /// Returns [`SessionError::Thread`].
    pub(crate) fn start(
        evaluators: Vec<Evaluator>,
        chunk_len: usize,
        spawner: Option<Spawner>,
    ) -> Result<Self, SessionError> {
        let threads = evaluators.into_iter().map(|evaluator| {
            let (tasks, given) = mpsc::sync_channel(chunks_waiting(chunk_len));
            let (sender, outputs) = mpsc::channel();
            spawn(spawner, "evaluating", move || {
                // This fails only if the receiver of the results was dropped.
                let _ = evaluate(evaluator, chunk_len, &given, &sender);
            })?;
            Ok(EvaluatingThread { tasks, outputs })
        });
        Ok(Self {
            threads: threads.collect::<Result<_, SessionError>>()?,
            begun: 0,
            done: 0,
        })
    }

    /// Starts the next group.
    pub(crate) fn begin(&mut self, group: Group) -> Result<(), SessionError> {
        self.begun += 1;
        self.give(Task::Begin(group))
    }

    /// Passes the next chunk of the last started group to its thread. Blocks while the queue of the
    /// thread is full.
    pub(crate) fn chunk(&self, chunk: Bytes) -> Result<(), SessionError> {
        self.give(Task::Chunk(chunk))
    }

    /// Returns the number of started groups whose outputs are not received yet.
    pub(crate) fn outstanding(&self) -> u64 {
        self.begun - self.done
    }

    /// Returns the outputs of the next group in order, if they are available.
    pub(crate) fn outputs(&mut self) -> Result<Option<Vec<EvaluatedOutputs>>, SessionError> {
        if self.outstanding() == 0 {
            return Ok(None);
        }
        match self.due().outputs.try_recv() {
            Ok(outputs) => {
                self.done += 1;
                Ok(Some(outputs?))
            }
            Err(mpsc::TryRecvError::Empty) => Ok(None),
            Err(mpsc::TryRecvError::Disconnected) => Err(SessionError::Cancelled),
        }
    }

    /// Waits for the outputs of the next group in order.
    pub(crate) fn wait(&mut self) -> Result<Vec<EvaluatedOutputs>, SessionError> {
        let outputs = self.due().outputs.recv();
        let outputs = outputs.map_err(|_| SessionError::Cancelled)??;
        self.done += 1;
        Ok(outputs)
    }

    fn due(&self) -> &EvaluatingThread {
        &self.threads[(self.done % self.threads.len() as u64) as usize]
    }

    fn give(&self, task: Task) -> Result<(), SessionError> {
        let last = self.begun.saturating_sub(1) % self.threads.len() as u64;
        let thread = &self.threads[last as usize];
        match thread.tasks.send(task) {
            Ok(()) => Ok(()),
            // The thread has ended after an error. Its last result is this error. Outputs of
            // earlier groups may precede it.
            Err(_) => Err((thread.outputs.iter())
                .find_map(Result::err)
                .map_or(SessionError::Cancelled, SessionError::from)),
        }
    }
}

fn evaluate(
    mut evaluator: Evaluator,
    chunk_len: usize,
    tasks: &Receiver<Task>,
    outputs: &Sender<Result<Vec<EvaluatedOutputs>, GarbleError>>,
) -> Result<(), ReceiverGone> {
    let tell = |outcome| outputs.send(outcome).map_err(|_| ReceiverGone);
    for task in tasks {
        let outcome = match task {
            Task::Begin(group) => evaluator.skip_to(group.instance).and_then(|()| {
                evaluator.add_labels(group.labels);
                evaluator.begin(group.lanes, group.given)
            }),
            Task::Chunk(chunk) => evaluator.evaluate_chunk(&chunk, chunk_len),
        };
        if let Err(error) = outcome {
            return tell(Err(error));
        }
        if evaluator.is_instance_done() {
            let lanes = evaluator.lanes();
            let taken = iter::repeat_with(|| evaluator.take_outputs()).take(lanes);
            tell(taken.collect())?;
        }
    }
    Ok(())
}

fn spawn(
    spawner: Option<Spawner>,
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<(), SessionError> {
    let spawned = match spawner {
        Some(spawner) => spawner(name, Box::new(work)),
        None => Err(io::ErrorKind::Unsupported.into()),
    };
    spawned.map_err(SessionError::Thread)
}
