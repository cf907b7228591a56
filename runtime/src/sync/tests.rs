//! One suite that runs for the types of the standard library and for the types of this room. Both
//! must pass it. Recording is off, or compiled out.

use core::any::type_name;
use core::mem::size_of;
use core::panic::{RefUnwindSafe, UnwindSafe};
use std::thread;

fn is_send<T: Send>(_: &T) {}
fn is_sync<T: Sync>(_: &T) {}
fn is_unwind_safe<T: UnwindSafe + RefUnwindSafe>(_: &T) {}

macro_rules! suite {
    ($name:ident: $($of:tt)+) => {
        mod $name {
            use $($of)+::mpsc::{
                RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError, channel,
                sync_channel,
            };
            use $($of)+::{
                Arc, Condvar, LockResult, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard,
                RwLockWriteGuard, TryLockError,
            };
            use std::cell::Cell;
            use std::fmt::{Debug, Display};
            use std::panic::{AssertUnwindSafe, catch_unwind};
            use std::time::Duration;

            use super::{is_send, is_sync, is_unwind_safe, thread};

            static COUNT: Mutex<u32> = Mutex::new(0);
            static TABLE: RwLock<Vec<u8>> = RwLock::new(Vec::new());
            static CONDITION: Condvar = Condvar::new();

            /// A pair as the documentation of the standard library has it.
            fn pair() -> Arc<(Mutex<bool>, Condvar)> {
                Arc::new((Mutex::new(false), Condvar::new()))
            }

            /// Sets it, and notifies.
            fn set(pair: &Arc<(Mutex<bool>, Condvar)>) -> thread::JoinHandle<()> {
                let pair = Arc::clone(pair);
                thread::spawn(move || {
                    let (lock, condition) = &*pair;
                    *lock.lock().unwrap() = true;
                    condition.notify_one();
                })
            }

            #[test]
            fn statics_and_threads() {
                let threads: Vec<_> = (0..4)
                    .map(|_| {
                        thread::spawn(|| {
                            for _ in 0..25 {
                                *COUNT.lock().unwrap() += 1;
                                TABLE.write().unwrap().push(1);
                                assert!(!TABLE.read().unwrap().is_empty());
                            }
                        })
                    })
                    .collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
                assert_eq!(*COUNT.lock().unwrap(), 100);
                assert_eq!(TABLE.read().unwrap().len(), 100);
                CONDITION.notify_all();
            }

            #[test]
            fn a_mutex() {
                let mut mutex = Mutex::new(String::from("a"));
                {
                    let mut guard: MutexGuard<'_, String> = mutex.lock().unwrap();
                    guard.push('b');
                    assert!(matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)));
                    let (shown, debugged) = (format!("{guard}"), format!("{guard:?}"));
                    assert_eq!((shown.as_str(), debugged.as_str()), ("ab", "\"ab\""));
                }
                mutex.try_lock().unwrap().push('c');
                mutex.get_mut().unwrap().push('d');
                let debugged = format!("{mutex:?}");
                assert_eq!(debugged, "Mutex { data: \"abcd\", poisoned: false, .. }");
                assert_eq!(mutex.into_inner().unwrap(), "abcd");
                assert_eq!(*Mutex::<u8>::default().lock().unwrap(), 0);
                assert_eq!(*Mutex::from(7).lock().unwrap(), 7);
            }

            #[test]
            fn a_reader_writer_lock() {
                let mut lock = RwLock::new(5);
                {
                    let one: RwLockReadGuard<'_, i32> = lock.read().unwrap();
                    let other = lock.try_read().unwrap();
                    assert_eq!((*one, *other), (5, 5));
                    assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
                    assert_eq!(format!("{one} {other:?}"), "5 5");
                }
                {
                    let mut writer: RwLockWriteGuard<'_, i32> = lock.write().unwrap();
                    *writer += 1;
                    assert!(matches!(lock.try_read(), Err(TryLockError::WouldBlock)));
                    assert_eq!(format!("{writer} {writer:?}"), "6 6");
                }
                *lock.try_write().unwrap() += 1;
                *lock.get_mut().unwrap() += 1;
                let debugged = format!("{lock:?}");
                assert_eq!(debugged, "RwLock { data: 8, poisoned: false, .. }");
                assert_eq!(lock.into_inner().unwrap(), 8);
                assert_eq!(*RwLock::<u8>::default().read().unwrap(), 0);
                assert_eq!(*RwLock::from(7).read().unwrap(), 7);
            }

            #[test]
            fn a_panic_poisons() {
                let (mutex, lock) = (Mutex::new(1), RwLock::new(1));
                let panics = catch_unwind(AssertUnwindSafe(|| {
                    let _both = (mutex.lock(), lock.write());
                    panic!("planned");
                }));
                assert!(panics.is_err() && mutex.is_poisoned() && lock.is_poisoned());
                let value = |poisoned: PoisonError<MutexGuard<'_, i32>>| *poisoned.into_inner();
                assert_eq!(mutex.lock().map_err(value).unwrap_err(), 1);
                assert!(matches!(mutex.try_lock(), Err(TryLockError::Poisoned(_))));
                assert!(lock.read().is_err() && lock.write().is_err());
                assert!(matches!(lock.try_read(), Err(TryLockError::Poisoned(_))));
                assert!(matches!(lock.try_write(), Err(TryLockError::Poisoned(_))));
                // The attempts have given the locks back.
                mutex.clear_poison();
                lock.clear_poison();
                assert_eq!((*mutex.lock().unwrap(), *lock.write().unwrap()), (1, 1));
                // A reader that panics poisons nothing.
                let panics = catch_unwind(AssertUnwindSafe(|| {
                    let _reader = lock.read();
                    panic!("planned");
                }));
                assert!(panics.is_err() && !lock.is_poisoned());
                let poisoned = catch_unwind(AssertUnwindSafe(|| {
                    let _held = mutex.lock();
                    panic!("planned");
                }));
                assert!(poisoned.is_err());
                let inner: LockResult<i32> = mutex.into_inner();
                assert_eq!(inner.unwrap_err().into_inner(), 1);
            }

            #[test]
            fn conditions() {
                let ours = pair();
                let thread = set(&ours);
                let mut started = ours.0.lock().unwrap();
                while !*started {
                    started = ours.1.wait(started).unwrap();
                }
                drop(started);
                thread.join().unwrap();

                let ours = pair();
                let thread = set(&ours);
                let started = ours.0.lock().unwrap();
                let started = ours.1.wait_while(started, |started| !*started).unwrap();
                assert!(*started);
                drop(started);
                thread.join().unwrap();

                let ours = pair();
                let guard = ours.0.lock().unwrap();
                let short = Duration::from_millis(1);
                let (guard, result) = ours.1.wait_timeout(guard, short).unwrap();
                // A spurious wake is no timeout.
                let _ = result.timed_out();
                let waited = ours.1.wait_timeout_while(guard, short, |started| !*started);
                let (guard, result) = waited.unwrap();
                assert!(result.timed_out() && !*guard);
                drop(guard);
                let thread = set(&ours);
                let long = Duration::from_secs(600);
                let guard = ours.0.lock().unwrap();
                let waited = ours.1.wait_timeout_while(guard, long, |started| !*started);
                let (guard, result) = waited.unwrap();
                assert!(!result.timed_out() && *guard);
                drop(guard);
                thread.join().unwrap();
                assert_eq!(format!("{:?}", Condvar::default()), "Condvar { .. }");
            }

            #[test]
            fn a_poisoned_lock_ends_a_wait() {
                let ours = pair();
                let _ = catch_unwind(AssertUnwindSafe(|| {
                    let _held = ours.0.lock();
                    panic!("planned");
                }));
                let guard = ours.0.lock().unwrap_err().into_inner();
                let short = Duration::from_millis(1);
                let waited = ours.1.wait_timeout(guard, short);
                let (guard, _) = waited.unwrap_err().into_inner();
                assert!(!*guard);
            }

            #[test]
            fn channels() {
                let (sender, receiver) = channel();
                assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
                let short = Duration::from_millis(1);
                assert_eq!(receiver.recv_timeout(short), Err(RecvTimeoutError::Timeout));
                let other = sender.clone();
                let thread = thread::spawn(move || (0..3).for_each(|n| other.send(n).unwrap()));
                thread.join().unwrap();
                assert_eq!(receiver.recv(), Ok(0));
                assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2]);
                sender.send(9).unwrap();
                drop(sender);
                assert_eq!((&receiver).into_iter().next(), Some(9));
                assert_eq!(receiver.recv(), Err(RecvError));
                let ended = receiver.recv_timeout(short);
                assert_eq!(ended, Err(RecvTimeoutError::Disconnected));
                assert_eq!(receiver.into_iter().next(), None);

                let (sender, receiver) = sync_channel(1);
                assert_eq!(sender.try_send(1), Ok(()));
                assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
                let other = sender.clone();
                let thread = thread::spawn(move || other.send(3).unwrap());
                assert_eq!(receiver.iter().take(2).collect::<Vec<_>>(), [1, 3]);
                thread.join().unwrap();
                drop(receiver);
                assert_eq!(sender.send(4), Err(SendError(4)));
                assert_eq!(sender.try_send(5), Err(TrySendError::Disconnected(5)));
                let (sender, receiver) = sync_channel::<u8>(0);
                let (sent, received) = (format!("{sender:?}"), format!("{receiver:?}"));
                assert_eq!(sent, "SyncSender { .. }");
                assert_eq!(received, "Receiver { .. }");
            }

            #[test]
            fn types_that_have_no_size() {
                let one: Box<Mutex<[u8]>> = Box::new(Mutex::new([1, 2]));
                assert_eq!(one.lock().unwrap().len(), 2);
                let shown: Arc<Mutex<dyn Display + Send>> = Arc::new(Mutex::new(7));
                assert_eq!(shown.lock().unwrap().to_string(), "7");
                let shown: Arc<RwLock<dyn Debug + Send + Sync>> = Arc::new(RwLock::new("x"));
                assert_eq!(format!("{:?}", &*shown.read().unwrap()), "\"x\"");
            }

            #[test]
            fn what_may_leave_a_thread() {
                let (mutex, lock) = (Mutex::new(Cell::new(1)), RwLock::new(1));
                is_send(&mutex);
                is_sync(&mutex);
                is_unwind_safe(&mutex);
                is_send(&lock);
                is_sync(&lock);
                is_unwind_safe(&lock);
                is_sync(&RwLock::new(1).read().unwrap());
                is_sync(&Mutex::new(1).lock().unwrap());
                let condition = Condvar::new();
                is_send(&condition);
                is_sync(&condition);
                is_unwind_safe(&condition);
                let (sender, receiver) = sync_channel::<Cell<u8>>(1);
                is_send(&sender);
                is_sync(&sender);
                is_send(&receiver);
            }
        }
    };
}

suite!(of_the_standard_library: std::sync);
suite!(of_this_room: crate::sync);

#[test]
fn names_are_for_every_kind() {
    let (mutex, lock) = (super::Mutex::named("m", 1), super::RwLock::named("l", 2));
    let condition = super::Condvar::named("c");
    condition.notify_one();
    assert_eq!(*mutex.lock().unwrap() + *lock.read().unwrap(), 3);
    let (sender, receiver) = super::mpsc::named_channel("u");
    sender.send(1).unwrap();
    let (bounded, room) = super::mpsc::named_sync_channel("b", 1);
    bounded.send(2).unwrap();
    assert_eq!((receiver.recv(), room.recv()), (Ok(1), Ok(2)));
    assert!(type_name::<super::Mutex<u8>>().ends_with("Mutex<u8>"));
}

#[cfg(not(all(feature = "record", target_os = "linux")))]
#[test]
fn types_without_the_recorder_are_as_in_std() {
    use super::mpsc::{Receiver, SyncSender};
    use super::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
    use std::sync::{self, mpsc};

    let ours = [
        size_of::<Mutex<u64>>(),
        size_of::<MutexGuard<'_, u64>>(),
        size_of::<RwLock<u64>>(),
        size_of::<RwLockReadGuard<'_, u64>>(),
        size_of::<RwLockWriteGuard<'_, u64>>(),
        size_of::<Condvar>(),
        size_of::<Receiver<u64>>(),
        size_of::<SyncSender<u64>>(),
    ];
    let theirs = [
        size_of::<sync::Mutex<u64>>(),
        size_of::<sync::MutexGuard<'_, u64>>(),
        size_of::<sync::RwLock<u64>>(),
        size_of::<sync::RwLockReadGuard<'_, u64>>(),
        size_of::<sync::RwLockWriteGuard<'_, u64>>(),
        size_of::<sync::Condvar>(),
        size_of::<mpsc::Receiver<u64>>(),
        size_of::<mpsc::SyncSender<u64>>(),
    ];
    assert_eq!(ours, theirs);
}

#[cfg(all(feature = "record", target_os = "linux"))]
#[test]
fn a_lock_is_32_bytes_larger_than_stds() {
    let more = size_of::<super::Mutex<u64>>() - size_of::<std::sync::Mutex<u64>>();
    assert_eq!(more, 32);
}
