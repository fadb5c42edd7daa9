//! Whose turn it is: members that have work go round, those that have none wait for a wake or for their time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// What does its work in turns.
pub(crate) trait InTurns: Send + Sync {
    /// Does a bounded part of the work. Several threads may call it at once. One that panics gets no more turns.
    fn turn(&self) -> NextTurn;
}

/// When a member is to have its next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextTurn {
    /// It did something, and there may be more, for other threads too.
    Now,
    /// It is to look again then, whether or not a wake comes first.
    Within(Duration),
    /// It failed; even a wake does not shorten this.
    NotBefore(Duration),
    /// There was nothing to do, and nothing comes by itself: it costs nothing until it is woken.
    WhenWoken,
    /// It has ended.
    Never,
}

impl NextTurn {
    /// The same, or sooner if there is something to do within that time.
    pub fn or_within(self, time: Duration) -> NextTurn {
        match self {
            NextTurn::Within(own) => NextTurn::Within(own.min(time)),
            NextTurn::WhenWoken => NextTurn::Within(time),
            // What failed waits; writers sync by themselves meanwhile, if need be.
            NextTurn::Now | NextTurn::NotBefore(_) | NextTurn::Never => self,
        }
    }
}

/// Names a member, and is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MemberId(u64);

struct Scheduled {
    work: Arc<dyn InTurns>,
    /// It stands in the queue.
    is_ready: bool,
    /// Its last turn did something: another thread may find more.
    is_busy: bool,
    /// Threads that give it a turn now.
    running: Vec<ThreadId>,
    /// When it is to have a turn at the latest.
    timer: Option<Instant>,
    /// It gets none before, whatever happens.
    not_before: Option<Instant>,
    is_leaving: bool,
}

impl Scheduled {
    fn rests_at(&self, now: Instant) -> bool {
        self.not_before.is_some_and(|not_before| now < not_before)
    }
}

/// What a thread is to do.
pub(crate) enum Assignment {
    Turn(MemberId, Arc<dyn InTurns>),
    /// Wait, at most until then.
    Wait(Option<Instant>),
}

#[derive(Default)]
pub(crate) struct Schedule {
    members: BTreeMap<MemberId, Scheduled>,
    ready: VecDeque<MemberId>,
    timers: BTreeSet<(Instant, MemberId)>,
    next: u64,
}

impl Schedule {
    /// Takes in a member, which has its first turn at once.
    pub fn join(&mut self, work: Arc<dyn InTurns>) -> MemberId {
        let id = MemberId(self.next);
        self.next += 1;
        let member = Scheduled {
            work,
            is_ready: true,
            is_busy: false,
            running: Vec::new(),
            timer: None,
            not_before: None,
            is_leaving: false,
        };
        self.members.insert(id, member);
        self.ready.push_back(id);
        id
    }

    /// There is work for a member. Tells whether a thread should look.
    pub fn wake(&mut self, id: MemberId, now: Instant) -> bool {
        let Some(member) = self.members.get(&id) else { return false };
        // One that rests has a timer, or stands in the queue, and gets one from there.
        !member.rests_at(now) && self.make_ready(id)
    }

    fn make_ready(&mut self, id: MemberId) -> bool {
        let Some(member) = self.members.get_mut(&id) else { return false };
        if member.is_leaving || std::mem::replace(&mut member.is_ready, true) {
            return false;
        }
        if let Some(timer) = member.timer.take() {
            self.timers.remove(&(timer, id));
        }
        self.ready.push_back(id);
        true
    }

    /// The member gets a turn at `due`, or before.
    fn look_at(&mut self, id: MemberId, due: Instant) {
        let Some(member) = self.members.get_mut(&id) else { return };
        match member.timer {
            Some(before) if before <= due => return,
            Some(before) => _ = self.timers.remove(&(before, id)),
            None => {}
        }
        member.timer = Some(due);
        self.timers.insert((due, id));
    }

    /// What `thread` does now.
    pub fn assign(&mut self, thread: ThreadId, now: Instant) -> Assignment {
        while let Some(&(due, id)) = self.timers.first()
            && due <= now
        {
            self.timers.pop_first();
            if let Some(member) = self.members.get_mut(&id) {
                member.timer = None;
            }
            self.make_ready(id);
        }
        while let Some(id) = self.ready.pop_front() {
            // One that has left is in the queue still.
            let Some(member) = self.members.get_mut(&id).filter(|member| !member.is_leaving) else {
                continue;
            };
            member.is_ready = false;
            if let Some(not_before) = member.not_before.filter(|_| member.rests_at(now)) {
                self.look_at(id, not_before);
                continue;
            }
            member.not_before = None;
            member.running.push(thread);
            let work = Arc::clone(&member.work);
            if member.is_busy {
                // Other threads may find work there at the same time.
                self.make_ready(id);
            }
            return Assignment::Turn(id, work);
        }
        Assignment::Wait(self.first_due())
    }

    /// When the first of those that wait for their time is due.
    pub fn first_due(&self) -> Option<Instant> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Whether a member is ready, so that another thread should look.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The turn that `thread` gave a member is over. Tells whether a thread waits for that: the member leaves.
    pub fn end_turn(
        &mut self,
        id: MemberId,
        thread: ThreadId,
        next: NextTurn,
        now: Instant,
    ) -> bool {
        let Some(member) = self.members.get_mut(&id) else { return false };
        if let Some(at) = member.running.iter().position(|other| *other == thread) {
            member.running.swap_remove(at);
        }
        member.is_busy = next == NextTurn::Now;
        member.is_leaving |= next == NextTurn::Never;
        if member.is_leaving {
            return true;
        }
        let is_ready = member.is_ready;
        match next {
            NextTurn::Now => _ = self.make_ready(id),
            NextTurn::NotBefore(wait) => {
                let due = now + wait;
                member.not_before = member.not_before.max(Some(due));
                if !is_ready {
                    self.look_at(id, due);
                }
            }
            // Another thread was called in meanwhile, or a wake came.
            NextTurn::Within(_) if is_ready => {}
            NextTurn::Within(wait) => self.look_at(id, now + wait),
            NextTurn::WhenWoken | NextTurn::Never => {}
        }
        false
    }

    /// A member gets no more turns.
    pub fn begin_leave(&mut self, id: MemberId) {
        if let Some(member) = self.members.get_mut(&id) {
            member.is_leaving = true;
            if let Some(timer) = member.timer.take() {
                self.timers.remove(&(timer, id));
            }
        }
    }

    /// Whether no thread but `thread` gives a member that leaves a turn; it is forgotten then.
    pub fn end_leave(&mut self, id: MemberId, thread: ThreadId) -> bool {
        let is_in_use = |member: &Scheduled| member.running.iter().any(|other| *other != thread);
        let in_use = self.members.get(&id).is_some_and(is_in_use);
        if !in_use {
            self.members.remove(&id);
        }
        !in_use
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl InTurns for Nothing {
        fn turn(&self) -> NextTurn {
            NextTurn::WhenWoken
        }
    }

    /// A schedule with a clock of its own.
    struct Played {
        schedule: Schedule,
        now: Instant,
        threads: [ThreadId; 2],
    }

    impl Played {
        fn new() -> Played {
            let other =
                std::thread::spawn(|| std::thread::current().id()).join().expect("a thread");
            let threads = [std::thread::current().id(), other];
            Played { schedule: Schedule::default(), now: Instant::now(), threads }
        }

        fn join(&mut self) -> MemberId {
            self.schedule.join(Arc::new(Nothing))
        }

        fn pass(&mut self, millis: u64) {
            self.now += Duration::from_millis(millis);
        }

        /// Whom thread number `thread` gives a turn, if it does.
        fn assigned(&mut self, thread: usize) -> Option<MemberId> {
            match self.schedule.assign(self.threads[thread], self.now) {
                Assignment::Turn(id, _) => Some(id),
                Assignment::Wait(_) => None,
            }
        }

        fn end(&mut self, id: MemberId, thread: usize, next: NextTurn) {
            self.schedule.end_turn(id, self.threads[thread], next, self.now);
        }

        /// Milliseconds until a thread that finds nothing looks again.
        fn wait(&mut self) -> Option<u128> {
            match self.schedule.assign(self.threads[0], self.now) {
                Assignment::Turn(..) => Some(0),
                Assignment::Wait(until) => until.map(|until| (until - self.now).as_millis()),
            }
        }
    }

    #[test]
    fn members_with_work_go_round() {
        let mut played = Played::new();
        let [a, b] = [played.join(), played.join()];
        for _ in 0..3 {
            for id in [a, b] {
                assert_eq!(played.assigned(0), Some(id));
                played.end(id, 0, NextTurn::Now);
            }
        }
    }

    #[test]
    fn a_second_thread_joins_one_that_is_busy_and_leaves_it_alone_if_it_finds_nothing() {
        let mut played = Played::new();
        let only = played.join();
        assert_eq!(played.assigned(0), Some(only));
        assert_eq!(played.assigned(1), None, "nothing is known of it yet");
        played.end(only, 0, NextTurn::Now);
        assert_eq!(played.assigned(0), Some(only));
        assert_eq!(played.assigned(1), Some(only), "it did something");
        played.end(only, 1, NextTurn::Within(Duration::from_millis(1)));
        played.pass(1);
        // The queue has it from when the second thread began.
        assert_eq!(played.assigned(1), Some(only));
        played.end(only, 1, NextTurn::Within(Duration::from_millis(1)));
        assert_eq!(played.assigned(1), None);
        played.end(only, 0, NextTurn::Now);
        assert_eq!(played.assigned(1), Some(only));
    }

    #[test]
    fn idle_members_cost_nothing_until_they_are_woken() {
        let mut played = Played::new();
        let id = played.join();
        assert_eq!(played.assigned(0), Some(id));
        played.end(id, 0, NextTurn::WhenWoken);
        assert_eq!(played.wait(), None);
        let now = played.now;
        assert!(played.schedule.wake(id, now));
        assert!(!played.schedule.wake(id, now), "it is ready already");
        assert_eq!(played.assigned(0), Some(id));
        played.end(id, 0, NextTurn::Within(Duration::from_millis(7)));
        assert_eq!(played.wait(), Some(7));
    }

    #[test]
    fn one_that_failed_rests_although_it_is_woken() {
        let mut played = Played::new();
        let id = played.join();
        let failed = NextTurn::NotBefore(Duration::from_millis(50));
        assert_eq!(played.assigned(0), Some(id));
        played.end(id, 0, failed);
        let now = played.now;
        assert!(!played.schedule.wake(id, now));
        assert_eq!(played.wait(), Some(50));
        played.pass(50);
        assert_eq!(played.assigned(0), Some(id));
        // Woken in the turn that fails.
        assert!(played.schedule.wake(id, played.now));
        played.end(id, 0, failed);
        assert_eq!(played.wait(), Some(50));
        played.pass(49);
        assert_eq!(played.wait(), Some(1));
        played.pass(1);
        assert_eq!(played.assigned(0), Some(id));
        played.end(id, 0, NextTurn::WhenWoken);
        let now = played.now;
        assert!(played.schedule.wake(id, now));
        // Another thread finds work in it that fails, and this one some that does not.
        assert_eq!(played.assigned(0), Some(id));
        played.end(id, 0, NextTurn::Now);
        assert_eq!((played.assigned(0), played.assigned(1)), (Some(id), Some(id)));
        played.end(id, 0, failed);
        played.end(id, 1, NextTurn::Now);
        assert_eq!(played.wait(), Some(50));
    }

    #[test]
    fn of_two_threads_in_one_member_the_one_that_looks_again_first_counts() {
        let mut played = Played::new();
        let id = played.join();
        assert_eq!(played.assigned(0), Some(id));
        played.end(id, 0, NextTurn::Now);
        assert_eq!((played.assigned(0), played.assigned(1)), (Some(id), Some(id)));
        // The queue has it from when the second thread began.
        played.end(id, 0, NextTurn::Within(Duration::from_millis(9)));
        assert_eq!(played.assigned(0), Some(id));
        played.end(id, 0, NextTurn::Within(Duration::from_millis(1)));
        played.end(id, 1, NextTurn::Within(Duration::from_millis(5)));
        assert_eq!(played.wait(), Some(1));
        played.pass(1);
        assert_eq!(played.assigned(0), Some(id));
        played.end(id, 0, NextTurn::Now);
        assert_eq!((played.assigned(0), played.assigned(1)), (Some(id), Some(id)));
        played.end(id, 0, NextTurn::WhenWoken);
        assert_eq!(played.assigned(0), Some(id));
        played.end(id, 0, NextTurn::Within(Duration::from_millis(3)));
        played.end(id, 1, NextTurn::WhenWoken);
        assert_eq!(played.wait(), Some(3));
    }

    #[test]
    fn one_that_leaves_has_left_when_its_last_turn_is_over() {
        let mut played = Played::new();
        let [id, other] = [played.join(), played.join()];
        assert_eq!(played.assigned(0), Some(id));
        played.schedule.begin_leave(id);
        let [here, there] = played.threads;
        assert!(!played.schedule.end_leave(id, there));
        assert!(played.schedule.end_turn(id, here, NextTurn::Now, played.now));
        assert!(played.schedule.end_leave(id, there));
        assert_eq!((played.assigned(0), played.schedule.members.len()), (Some(other), 1));
        // A thread that leaves in its own turn does not wait for itself.
        played.schedule.begin_leave(other);
        assert!(played.schedule.end_leave(other, here));
        played.end(other, 0, NextTurn::Now);
        assert_eq!((played.wait(), played.schedule.members.len()), (None, 0));
    }

    #[test]
    fn each_step_looks_at_what_it_is_about_however_many_members_there_are() {
        let mut played = Played::new();
        let ids: Vec<MemberId> = (0..2000).map(|_| played.join()).collect();
        for id in &ids {
            assert_eq!(played.assigned(0), Some(*id));
            played.end(*id, 0, NextTurn::Within(Duration::from_secs(1)));
        }
        assert_eq!(played.schedule.timers.len(), ids.len());
        let now = played.now;
        assert!(played.schedule.wake(ids[1000], now));
        assert_eq!((played.schedule.ready.len(), played.schedule.timers.len()), (1, 1999));
    }
}
