//! One suite that runs for the types of `parking_lot` and for the types of this crate. It must compile and pass for
//! both. Recording is off, or compiled out.

use std::{panic::UnwindSafe, thread};

fn is_send<T: Send>(_: &T) {}
fn is_sync<T: Sync>(_: &T) {}
fn is_unwind_safe<T: UnwindSafe>(_: T) {}

macro_rules! suite {
    ($name:ident: $of:ident) => {
        mod $name {
            use std::cell::Cell;
            use std::fmt::{Debug, Display};
            use std::panic::{AssertUnwindSafe, catch_unwind};
            use std::sync::Arc;
            use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
            use std::time::{Duration, Instant};

            use $of::lock_api::{RawMutex as _, RawRwLock as _};
            use $of::*;

            use super::{is_send, is_sync, is_unwind_safe, thread};

            static COUNT: Mutex<u32> = Mutex::new(0);
            static OTHER: Mutex<u32> = const_mutex(0);
            static FAIR: FairMutex<u32> = const_fair_mutex(0);
            static AGAIN: ReentrantMutex<Cell<u32>> = const_reentrant_mutex(Cell::new(0));
            static TABLE: RwLock<Vec<u8>> = RwLock::new(Vec::new());
            static SECOND: RwLock<u8> = const_rwlock(0);
            static CONDITION: Condvar = Condvar::new();

            const SHORT: Duration = Duration::from_millis(1);
            const LONG: Duration = Duration::from_secs(600);

            fn later(time: Duration) -> Instant {
                Instant::now() + time
            }

            #[test]
            fn statics_and_threads() {
                let work = || {
                    for _ in 0..50 {
                        *COUNT.lock() += 1;
                        *OTHER.lock() += 1;
                        *FAIR.lock() += 1;
                        let (one, other) = (AGAIN.lock(), AGAIN.lock());
                        one.set(other.get() + 1);
                        drop((one, other));
                        TABLE.write().push(1);
                        assert!(!TABLE.read().is_empty());
                        let seen = SECOND.upgradable_read();
                        let next = seen.wrapping_add(1);
                        *RwLockUpgradableReadGuard::upgrade(seen) = next;
                    }
                };
                let threads: Vec<_> = (0..4).map(|_| thread::spawn(work)).collect();
                threads
                    .into_iter()
                    .for_each(|thread| thread.join().unwrap());
                assert_eq!(
                    (*COUNT.lock(), *OTHER.lock(), *FAIR.lock()),
                    (200, 200, 200)
                );
                assert_eq!(
                    (AGAIN.lock().get(), TABLE.read().len(), *SECOND.read()),
                    (200, 200, 200)
                );
                assert_eq!((CONDITION.notify_all(), CONDITION.notify_one()), (0, false));
            }

            #[test]
            fn a_mutex() {
                let mut mutex = Mutex::new(String::from("a"));
                assert!(!mutex.is_locked());
                {
                    let mut guard: MutexGuard<'_, String> = mutex.lock();
                    guard.push('b');
                    assert!(mutex.is_locked() && mutex.try_lock().is_none());
                    assert!(mutex.try_lock_for(SHORT).is_none());
                    assert!(mutex.try_lock_until(later(SHORT)).is_none());
                    let (shown, debugged) = (format!("{guard}"), format!("{guard:?}"));
                    assert_eq!((shown.as_str(), debugged.as_str()), ("ab", "\"ab\""));
                    assert_eq!(format!("{mutex:?}"), "Mutex { data: <locked> }");
                    MutexGuard::unlocked(&mut guard, || mutex.lock().push('c'));
                    MutexGuard::unlocked_fair(&mut guard, || mutex.lock().push('d'));
                    MutexGuard::bump(&mut guard);
                    assert!(mutex.is_locked());
                    MutexGuard::unlock_fair(guard);
                }
                mutex.try_lock().unwrap().push('e');
                mutex.try_lock_for(LONG).unwrap().push('f');
                mutex.try_lock_for(Duration::MAX).unwrap().push('g');
                mutex.try_lock_until(later(LONG)).unwrap().push('h');
                mutex.get_mut().push('i');
                assert_eq!(format!("{mutex:?}"), "Mutex { data: \"abcdefghi\" }");
                assert_eq!(Mutex::lock(&mutex).len(), 9);
                // SAFETY: the guard is gone, and the lock is held.
                unsafe {
                    std::mem::forget(mutex.lock());
                    mutex.force_unlock();
                    std::mem::forget(mutex.lock());
                    mutex.force_unlock_fair();
                    assert!(mutex.raw().try_lock());
                    mutex.raw().unlock();
                    assert_eq!((&*mutex.data_ptr()).len(), 9);
                }
                assert_eq!(mutex.into_inner(), "abcdefghi");
                assert_eq!(*Mutex::<u8>::default().lock(), 0);
                assert_eq!(*Mutex::from(7).lock(), 7);
                let forever: &mut u8 = MutexGuard::leak(Box::leak(Box::new(Mutex::new(1))).lock());
                *forever += 1;
            }

            #[test]
            fn a_part_of_a_value() {
                let pair = Mutex::new((1, String::from("x")));
                let part: MappedMutexGuard<'_, String> =
                    MutexGuard::map(pair.lock(), |pair| &mut pair.1);
                let mut letter = MappedMutexGuard::map(part, |text| text.as_mut_str());
                letter.make_ascii_uppercase();
                assert!(pair.is_locked());
                MappedMutexGuard::unlock_fair(letter);
                let back = MutexGuard::try_map(pair.lock(), |_| None::<&mut u8>).map(drop);
                assert_eq!(*back.unwrap_err(), (1, String::from("X")));
                assert!(!pair.is_locked());
                let fair = FairMutex::new([1, 2]);
                let part: MappedFairMutexGuard<'_, i32> =
                    FairMutexGuard::map(fair.lock(), |all| &mut all[1]);
                assert_eq!(*part, 2);
                drop(part);
                let again = ReentrantMutex::new([1, 2]);
                let part: MappedReentrantMutexGuard<'_, i32> =
                    ReentrantMutexGuard::map(again.lock(), |all| &all[1]);
                assert_eq!(*part, 2);
                drop(part);
                let lock = RwLock::new([1, 2]);
                let read: MappedRwLockReadGuard<'_, i32> =
                    RwLockReadGuard::map(lock.read(), |all| &all[1]);
                assert!(lock.try_write().is_none() && *read == 2);
                drop(read);
                let mut write: MappedRwLockWriteGuard<'_, i32> =
                    RwLockWriteGuard::map(lock.write(), |all| &mut all[0]);
                *write = 5;
                assert!(lock.try_read().is_none());
                drop(write);
                assert_eq!(*lock.read(), [5, 2]);
            }

            #[test]
            fn fair_and_usual_mutexes_lock() {
                let mut fair = FairMutex::new(1);
                {
                    let mut guard = fair.lock();
                    assert!(fair.try_lock().is_none() && fair.try_lock_for(SHORT).is_none());
                    FairMutexGuard::bump(&mut guard);
                    *guard += 1;
                }
                *fair.get_mut() += 1;
                assert_eq!(format!("{fair:?}"), "Mutex { data: 3 }");
                assert_eq!((*FairMutex::from(1).lock(), fair.into_inner()), (1, 3));
                let mut again = ReentrantMutex::new(7);
                {
                    let (one, other) = (again.lock(), again.try_lock().unwrap());
                    assert!(again.is_owned_by_current_thread() && again.is_locked());
                    assert!(again.try_lock_for(SHORT).is_some());
                    thread::scope(|scope| {
                        let theirs = scope.spawn(|| again.try_lock().is_none());
                        assert!(theirs.join().unwrap());
                    });
                    assert_eq!(*one + *other, 14);
                    drop(one);
                    assert!(again.is_locked());
                }
                assert!(!again.is_locked());
                *again.get_mut() += 1;
                assert_eq!(format!("{again:?}"), "ReentrantMutex { data: 8 }");
                assert_eq!(*ReentrantMutex::<u8>::default().lock(), 0);
                assert_eq!(again.into_inner(), 8);
            }

            #[test]
            fn a_reader_writer_lock() {
                let mut lock = RwLock::new(5);
                {
                    let mut one: RwLockReadGuard<'_, i32> = lock.read();
                    let others = (lock.try_read().unwrap(), lock.read_recursive());
                    let more = (lock.try_read_for(LONG), lock.try_read_until(later(LONG)));
                    assert!(more.0.is_some() && more.1.is_some());
                    assert!(lock.try_read_recursive().is_some());
                    assert!(lock.try_read_recursive_for(LONG).is_some());
                    assert!(lock.try_read_recursive_until(later(LONG)).is_some());
                    assert!(lock.try_write().is_none() && lock.try_write_for(SHORT).is_none());
                    assert!(lock.try_write_until(later(SHORT)).is_none());
                    assert!(lock.is_locked() && !lock.is_locked_exclusive());
                    assert_eq!(format!("{one} {:?} {}", others.0, others.1), "5 5 5");
                    drop((others, more));
                    RwLockReadGuard::unlocked(&mut one, || *lock.write() += 1);
                    RwLockReadGuard::bump(&mut one);
                    assert_eq!(*one, 6);
                    RwLockReadGuard::unlock_fair(one);
                }
                {
                    let mut writer: RwLockWriteGuard<'_, i32> = lock.write();
                    *writer += 1;
                    assert!(lock.try_read().is_none() && lock.try_read_for(SHORT).is_none());
                    assert!(lock.try_read_until(later(SHORT)).is_none());
                    assert!(lock.try_upgradable_read().is_none() && lock.is_locked_exclusive());
                    RwLockWriteGuard::bump(&mut writer);
                    RwLockWriteGuard::unlocked(&mut writer, || assert_eq!(*lock.read(), 7));
                    assert_eq!(format!("{writer} {writer:?}"), "7 7");
                    assert_eq!(format!("{lock:?}"), "RwLock { data: <locked> }");
                    let reader = RwLockWriteGuard::downgrade(writer);
                    assert_eq!(*reader + *lock.read(), 14);
                }
                *lock.try_write().unwrap() += 1;
                *lock.try_write_for(LONG).unwrap() += 1;
                *lock.try_write_until(later(LONG)).unwrap() += 1;
                *lock.get_mut() += 1;
                assert_eq!(RwLock::read(&lock).pow(2), 121);
                assert_eq!(format!("{lock:?}"), "RwLock { data: 11 }");
                assert_eq!(lock.into_inner(), 11);
                assert_eq!(*RwLock::<u8>::default().read(), 0);
                assert_eq!(*RwLock::from(7).read(), 7);
            }

            #[test]
            fn a_reader_that_may_write_later() {
                let lock = RwLock::new(1);
                let mut seen: RwLockUpgradableReadGuard<'_, i32> = lock.upgradable_read();
                assert!(lock.try_upgradable_read().is_none() && lock.try_read().is_some());
                assert!(lock.try_upgradable_read_for(SHORT).is_none());
                assert!(lock.try_upgradable_read_until(later(SHORT)).is_none());
                seen.with_upgraded(|value| *value += 1);
                RwLockUpgradableReadGuard::bump(&mut seen);
                let reader = lock.read();
                let seen = RwLockUpgradableReadGuard::try_upgrade(seen).unwrap_err();
                let seen = RwLockUpgradableReadGuard::try_upgrade_for(seen, SHORT).unwrap_err();
                let until = RwLockUpgradableReadGuard::try_upgrade_until(seen, later(SHORT));
                let seen = until.unwrap_err();
                drop(reader);
                let mut writer = RwLockUpgradableReadGuard::upgrade(seen);
                *writer += 1;
                let seen = RwLockWriteGuard::downgrade_to_upgradable(writer);
                assert!(lock.try_read().is_some() && lock.try_upgradable_read().is_none());
                let writer = RwLockUpgradableReadGuard::try_upgrade(seen).unwrap();
                let seen = RwLockWriteGuard::downgrade_to_upgradable(writer);
                let writer = RwLockUpgradableReadGuard::try_upgrade_for(seen, LONG).unwrap();
                drop(writer);
                let seen = lock.try_upgradable_read_for(LONG).unwrap();
                let reader = RwLockUpgradableReadGuard::downgrade(seen);
                assert_eq!(
                    *reader + *lock.try_upgradable_read_until(later(LONG)).unwrap(),
                    6
                );
            }

            #[test]
            fn a_panic_gives_the_lock_back() {
                let (mutex, lock) = (Mutex::new(1), RwLock::new(1));
                let panics = catch_unwind(AssertUnwindSafe(|| {
                    let (mut one, mut other) = (mutex.lock(), lock.write());
                    (*one, *other) = (2, 2);
                    panic!("planned");
                }));
                assert!(panics.is_err());
                assert_eq!(
                    (*mutex.try_lock().unwrap(), *lock.try_write().unwrap()),
                    (2, 2)
                );
                let panics = catch_unwind(AssertUnwindSafe(|| {
                    let _seen = lock.upgradable_read();
                    let mut value = mutex.lock();
                    CONDITION.wait_while(&mut value, |_| panic!("planned"));
                }));
                assert!(panics.is_err() && !mutex.is_locked() && !lock.is_locked());
            }

            #[test]
            fn conditions() {
                let pair = Arc::new((Mutex::new(0), Condvar::new()));
                let theirs = Arc::clone(&pair);
                let thread = thread::spawn(move || {
                    for value in 1..=4 {
                        *theirs.0.lock() = value;
                        theirs.1.notify_one();
                        let mut value = theirs.0.lock();
                        theirs.1.wait_while(&mut value, |value| *value != 0);
                    }
                });
                let (mutex, condition) = &*pair;
                let turn = |wait: &dyn Fn(&mut MutexGuard<'_, i32>)| {
                    let mut guard = mutex.lock();
                    wait(&mut guard);
                    assert!(*guard != 0 && mutex.is_locked());
                    *guard = 0;
                    drop(guard);
                    condition.notify_all();
                };
                turn(&|guard| {
                    while **guard == 0 {
                        condition.wait(guard);
                    }
                });
                turn(&|guard| condition.wait_while(guard, |value| *value == 0));
                turn(&|guard| {
                    let result = condition.wait_while_for(guard, |value| *value == 0, LONG);
                    assert!(!result.timed_out());
                });
                turn(&|guard| {
                    let wanted = |value: &mut i32| *value == 0;
                    let result = condition.wait_while_until(guard, wanted, later(LONG));
                    assert!(!result.timed_out());
                });
                thread.join().unwrap();
                let mut guard = mutex.lock();
                let result: WaitTimeoutResult = condition.wait_for(&mut guard, SHORT);
                assert!(result.timed_out());
                assert!(condition.wait_until(&mut guard, later(SHORT)).timed_out());
                assert!(
                    condition
                        .wait_while_for(&mut guard, |_| true, SHORT)
                        .timed_out()
                );
                assert!(
                    !condition
                        .wait_while_for(&mut guard, |_| false, SHORT)
                        .timed_out()
                );
                assert!(mutex.is_locked());
                assert_eq!(format!("{:?}", Condvar::default()), "Condvar { .. }");
            }

            #[test]
            fn a_condition_with_two_locks_panics() {
                let shared = Arc::new((Mutex::new(false), Mutex::new(0), Condvar::new()));
                let theirs = Arc::clone(&shared);
                let waits = Arc::new(AtomicBool::new(false));
                let waiting = Arc::clone(&waits);
                let thread = thread::spawn(move || {
                    let mut done = theirs.0.lock();
                    waiting.store(true, Ordering::Release);
                    theirs.2.wait_while(&mut done, |done| !*done);
                });
                while !waits.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                // It has the lock until it waits.
                drop(shared.0.lock());
                let panics = catch_unwind(AssertUnwindSafe(|| {
                    let mut other = shared.1.lock();
                    shared.2.wait_for(&mut other, LONG);
                }));
                assert!(panics.is_err() && shared.1.try_lock().is_some());
                *shared.0.lock() = true;
                shared.2.notify_all();
                thread.join().unwrap();
            }

            #[test]
            fn once() {
                static FIRST: Once = Once::new();
                let count = AtomicU32::new(0);
                for _ in 0..2 {
                    FIRST.call_once(|| _ = count.fetch_add(1, Ordering::Relaxed));
                }
                assert_eq!((count.into_inner(), FIRST.state()), (1, OnceState::Done));
            }

            #[test]
            fn raw_locks() {
                let mutex = $of::lock_api::Mutex::<RawMutex, u8>::new(1);
                assert_eq!(*mutex.lock(), 1);
                let lock = $of::lock_api::RwLock::<RawRwLock, u8>::new(2);
                let (raw, fair) = (RawRwLock::INIT, RawFairMutex::INIT);
                assert_eq!((*lock.read(), raw.is_locked()), (2, false));
                assert!(fair.try_lock());
                let again = $of::lock_api::ReentrantMutex::<RawMutex, RawThreadId, u8>::new(3);
                assert_eq!(*again.lock(), 3);
            }

            #[test]
            fn types_that_have_no_size() {
                let one: Box<Mutex<[u8]>> = Box::new(Mutex::new([1, 2]));
                assert_eq!(one.lock().len(), 2);
                let shown: Arc<Mutex<dyn Display + Send>> = Arc::new(Mutex::new(7));
                assert_eq!(shown.lock().to_string(), "7");
                let shown: Arc<RwLock<dyn Debug + Send + Sync>> = Arc::new(RwLock::new("x"));
                assert_eq!(format!("{:?}", &*shown.read()), "\"x\"");
            }

            #[test]
            fn what_may_leave_a_thread() {
                let (mutex, lock) = (Mutex::new(Cell::new(1)), RwLock::new(1));
                is_send(&mutex);
                is_sync(&mutex);
                is_send(&lock);
                is_sync(&lock);
                is_sync(&lock.read());
                is_sync(&Mutex::new(1).lock());
                let (fair, again) = (FairMutex::new(1), ReentrantMutex::new(Cell::new(1)));
                is_sync(&fair);
                is_sync(&again);
                let condition = Condvar::new();
                is_send(&condition);
                is_sync(&condition);
                is_unwind_safe(mutex);
                is_unwind_safe(lock);
                is_unwind_safe(condition);
            }

            #[cfg(feature = "arc_lock")]
            #[test]
            fn locks_that_their_guards_keep_alive() {
                use $of::{ArcMutexGuard, ArcRwLockReadGuard, ArcRwLockWriteGuard};

                let mutex = Arc::new(Mutex::new(1));
                let mut guard: ArcMutexGuard<RawMutex, u8> = mutex.lock_arc();
                assert!(mutex.try_lock_arc().is_none() && mutex.try_lock_arc_for(SHORT).is_none());
                *guard += 1;
                ArcMutexGuard::bump(&mut guard);
                drop(mutex);
                assert_eq!(*guard, 2);
                let lock = Arc::new(RwLock::new(String::from("x")));
                let read: ArcRwLockReadGuard<RawRwLock, String> = lock.read_arc();
                assert!(lock.try_write_arc().is_none() && lock.try_read_arc().is_some());
                drop(read);
                let mut write: ArcRwLockWriteGuard<RawRwLock, String> = lock.write_arc();
                write.push('y');
                drop(write);
                let seen = lock.upgradable_read_arc();
                drop(lock);
                assert_eq!(*seen, "xy");
                let again = Arc::new(ReentrantMutex::new(1));
                assert_eq!(*again.lock_arc() + *again.try_lock_arc().unwrap(), 2);
                let shown: Arc<Mutex<dyn Display + Send>> = Arc::new(Mutex::new(7));
                let guard = shown.lock_arc();
                drop(shown);
                assert_eq!(guard.to_string(), "7");
            }

            #[cfg(feature = "serde")]
            #[test]
            fn locks_are_written_and_read_as_their_values() {
                let mutex: Mutex<u8> = serde_json::from_str("7").unwrap();
                assert_eq!(serde_json::to_string(&mutex).unwrap(), "7");
                let lock: RwLock<Vec<u8>> = serde_json::from_str("[1]").unwrap();
                assert_eq!(serde_json::to_string(&lock).unwrap(), "[1]");
            }
        }
    };
}

suite!(of_parking_lot: parking_lot);
suite!(of_this_crate: fdr_parking_lot);

#[test]
fn names_are_for_every_kind() {
    let (mutex, lock) = (crate::Mutex::named("m", 1), crate::RwLock::named("l", 2));
    assert_eq!(*mutex.lock() + *lock.read(), 3);
    let fair = crate::FairMutex::named("f", 3);
    let again = crate::ReentrantMutex::named("r", 4);
    assert_eq!(*fair.lock() + *again.lock(), 7);
    assert!(!crate::Condvar::named("c").notify_one());
}

#[cfg(not(all(feature = "record", target_os = "linux")))]
#[test]
fn types_without_the_recorder_match_parking_lot() {
    let ours = [
        size_of::<crate::Mutex<u64>>(),
        size_of::<crate::FairMutex<u64>>(),
        size_of::<crate::ReentrantMutex<u64>>(),
        size_of::<crate::RwLock<u64>>(),
        size_of::<crate::Condvar>(),
    ];
    let theirs = [
        size_of::<parking_lot::Mutex<u64>>(),
        size_of::<parking_lot::FairMutex<u64>>(),
        size_of::<parking_lot::ReentrantMutex<u64>>(),
        size_of::<parking_lot::RwLock<u64>>(),
        size_of::<parking_lot::Condvar>(),
    ];
    assert_eq!(ours, theirs);
}

#[cfg(all(feature = "record", target_os = "linux"))]
#[test]
fn a_lock_is_40_bytes_larger() {
    let more = size_of::<crate::Mutex<u64>>() - size_of::<parking_lot::Mutex<u64>>();
    assert_eq!(more, 40);
}
