//! Runs a scene on a cell of real processes, and says how it went.

use super::scene::{Scale, Scene, job};
use super::solver::fair_usage;
use crate::cell::http::Http;
use crate::cell::{self, Cell, Killed};
use ohm_stdx::Prng;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Between two looks at the queues.
const LOOK: Duration = Duration::from_millis(500);
/// A queue whose backlog falls below so many times what it may run gets more.
const BACKLOG: f64 = 1.5;
/// So many jobs are submitted at once at most.
const SUBMIT_MAX: usize = 2_000;

/// How one queue did while usage was averaged.
#[derive(Clone, Debug, Default)]
pub struct QueueRow {
    pub fair: f64,
    pub usage: f64,
    pub started: usize,
}

impl QueueRow {
    /// Whether it had what is fair, within so many percent or one task.
    fn is_fair(&self, percent: f64) -> bool {
        (self.usage - self.fair).abs() <= (self.fair * percent / 100.0).max(1.0)
    }

    /// Whether it should have started something and has not.
    fn starves(&self) -> bool {
        self.started == 0 && self.fair >= 1.0
    }
}

/// How all queues did.
#[derive(Clone, Debug)]
pub struct Window {
    pub seconds: u64,
    pub samples: usize,
    /// Of them, those at which some queue had nothing that waited.
    pub dry: usize,
    pub queues: BTreeMap<String, QueueRow>,
}

impl Window {
    /// What is wrong with it.
    pub fn problems(&self, percent: f64) -> Vec<String> {
        let mut problems = Vec::new();
        if self.dry > 0 {
            problems.push(format!("at {} of {} looks some queue had nothing that waits", self.dry, self.samples));
        }
        for (name, row) in &self.queues {
            if !row.is_fair(percent) {
                problems.push(format!("{name} used {:.2} cpus on the average, {:.2} are fair", row.usage, row.fair));
            }
            if row.starves() {
                problems.push(format!("{name} started nothing, {:.2} cpus are fair", row.fair));
            }
        }
        problems
    }

    /// A table for people.
    pub fn text(&self, percent: f64) -> String {
        let mut text = format!("{:<8}{:>10}{:>10}{:>8}{:>9}\n", "queue", "fair", "usage", "off", "started");
        for (name, row) in &self.queues {
            let mark = if row.is_fair(percent) { "" } else { "  <-" };
            let (off, started) = (row.usage - row.fair, row.started);
            writeln!(text, "{name:<8}{:>10.2}{:>10.2}{off:>8.2}{started:>9}{mark}", row.fair, row.usage).expect("text");
        }
        let good = self.queues.values().filter(|row| row.is_fair(percent)).count();
        let far = self.queues.values().map(|row| (row.usage - row.fair).abs()).fold(0.0, f64::max);
        let (fair, usage) = self.queues.values().fold((0.0, 0.0), |sum, row| (sum.0 + row.fair, sum.1 + row.usage));
        writeln!(
            text,
            "{good} of {} queues within {percent} % or one task over {} s ({} looks), {far:.2} cpus off at most; {usage:.1} of \
             {fair:.1} cpus in use",
            self.queues.len(),
            self.seconds,
            self.samples
        )
        .expect("text");
        text
    }
}

/// A cell under load.
pub struct Run {
    cell: Cell,
    http: Http,
    scale: Scale,
    prng: Prng,
    _fleet: Killed,
    /// How many jobs each queue was given.
    submitted: BTreeMap<String, usize>,
}

impl Run {
    /// Starts a cell with the nodes of `scale`.
    pub fn start(scale: &Scale) -> Run {
        let cell = Cell::start(&["--nodes", "0", "--schedulers", &format!("batch={}", scale.replicas)]);
        let file = cell.put("nodes.yaml", cell::small_nodes(scale.nodes, scale.cpus as usize));
        let fleet = cell.sim_agent(file);
        cell.wait_for_nodes(scale.nodes);
        let http = Http::connect(&cell);
        let prng = Prng::new(scale.seed);
        Run { cell, http, scale: scale.clone(), prng, _fleet: fleet, submitted: BTreeMap::new() }
    }

    /// The dice of the run.
    pub fn prng(&mut self) -> &mut Prng {
        &mut self.prng
    }

    /// Puts what of `scene` is other than `before`.
    pub fn put(&mut self, scene: &Scene, before: Option<&Scene>) {
        let (status, answer) = self.http.submit(scene.documents(before).as_bytes());
        assert_eq!((status, answer["refused"].as_u64().unwrap_or(0)), (200, 0), "{answer}");
    }

    /// Submits the jobs that there are before anything is measured, the same number to each queue.
    pub fn load(&mut self, scene: &Scene) {
        let queues = scene.queues();
        let each = self.scale.jobs / queues.len();
        self.submit(queues.into_iter().map(|queue| (queue, each)));
    }

    fn submit(&mut self, wanted: impl Iterator<Item = (String, usize)>) {
        let mut jobs = Vec::new();
        for (queue, count) in wanted {
            let next = self.submitted.entry(queue.clone()).or_insert(0);
            jobs.extend((*next..*next + count).map(|number| job(&queue, number, &self.scale, &mut self.prng)));
            *next += count;
        }
        self.prng.shuffle(&mut jobs);
        for jobs in jobs.chunks(SUBMIT_MAX) {
            let (status, answer) = self.http.submit(jobs.concat().as_bytes());
            assert_eq!((status, answer["accepted"].as_u64()), (200, Some(jobs.len() as u64)), "{answer}");
        }
    }

    /// Lets the cell go on for so long, keeps every queue in work, and averages what each uses.
    pub fn watch(&mut self, scene: &Scene, seconds: u64) -> Window {
        let fair = fair_usage(&scene.nodes);
        let row = |(name, fair): (String, f64)| (name, QueueRow { fair, ..QueueRow::default() });
        let queues: BTreeMap<String, QueueRow> = fair.into_iter().map(row).collect();
        let mut window = Window { seconds, samples: 0, dry: 0, queues };
        let (started, before) = (Instant::now(), self.started());
        let mut areas: BTreeMap<String, f64> = BTreeMap::new();
        let mut looked = started;
        while started.elapsed() < Duration::from_secs(seconds) {
            std::thread::sleep(LOOK);
            let states = self.queues();
            let passed = looked.elapsed().as_secs_f64();
            looked = Instant::now();
            window.samples += 1;
            window.dry += usize::from(states.values().any(|(_, waiting)| *waiting == 0));
            for (name, (usage, _)) in &states {
                *areas.entry(name.clone()).or_default() += usage * passed;
            }
            self.feed(&window, &states);
        }
        let (whole, after) = (looked.duration_since(started).as_secs_f64(), self.started());
        for (name, row) in &mut window.queues {
            row.usage = areas.get(name).copied().unwrap_or(0.0) / whole;
            row.started = after.get(name).copied().unwrap_or(0) - before.get(name).copied().unwrap_or(0);
        }
        window
    }

    /// Gives more jobs to queues of which few wait.
    fn feed(&mut self, window: &Window, states: &BTreeMap<String, (f64, u64)>) {
        let mut wanted = Vec::new();
        for (name, row) in &window.queues {
            let (Some((_, waiting)), least) = (states.get(name), row.fair * BACKLOG + 10.0) else { continue };
            if (*waiting as f64) < least {
                wanted.push((name.clone(), least as usize));
            }
        }
        self.submit(wanted.into_iter());
    }

    /// What each queue uses, in cpus, and how many of its jobs wait.
    fn queues(&mut self) -> BTreeMap<String, (f64, u64)> {
        let answer: Value = serde_json::from_str(&self.http.get("/v1/queues")).expect("queues");
        let queues = answer["queues"].as_array().expect("queues").iter().filter(|queue| queue["kind"] == "Queue");
        let row = |queue: &Value| {
            let used = cpus(queue["resources"]["cpu"]["used"].as_str().expect("what it uses"));
            (text(&queue["name"]), (used, queue["pending"].as_u64().expect("how many wait")))
        };
        queues.map(row).collect()
    }

    fn jobs(&mut self) -> Vec<Value> {
        let (mut jobs, mut after) = (Vec::new(), String::new());
        loop {
            let page = self.http.get(&format!("/v1/jobs?limit=10000&after={after}"));
            let page: Value = serde_json::from_str(&page).expect("jobs");
            jobs.extend(page["jobs"].as_array().expect("jobs").iter().cloned());
            after = text(&page["next"]);
            if after.is_empty() {
                return jobs;
            }
        }
    }

    /// How many jobs of each queue have started so far.
    fn started(&mut self) -> BTreeMap<String, usize> {
        let mut started = BTreeMap::new();
        for job in self.jobs().iter().filter(|job| job["startedMs"].as_u64().unwrap_or(0) > 0) {
            *started.entry(text(&job["queue"])).or_default() += 1;
        }
        started
    }

    /// Every job that was submitted waits, runs or has succeeded, and no other one is there. Returns how many did.
    pub fn count_jobs(&mut self) -> BTreeMap<String, usize> {
        let all = |(queue, count): (&String, &usize)| (0..*count).map(|at| format!("{queue}-{at}")).collect::<Vec<_>>();
        let submitted: BTreeSet<String> = self.submitted.iter().flat_map(all).collect();
        let mut states = BTreeMap::new();
        let mut known = BTreeSet::new();
        for job in self.jobs() {
            known.insert(text(&job["name"]));
            *states.entry(text(&job["state"])).or_default() += 1;
        }
        assert_eq!(known.difference(&submitted).next(), None, "a job that nobody submitted");
        assert_eq!(submitted.difference(&known).next(), None, "a job is lost");
        let good = ["pending", "running", "succeeded"];
        assert!(states.keys().all(|state| good.contains(&state.as_str())), "{states:?}");
        states
    }

    /// Stops the cell and replays its log, in which every invariant must have held.
    pub fn stop(self) -> String {
        let Run { mut cell, _fleet, .. } = self;
        drop(_fleet);
        cell.stop();
        cell::verify_log(&cell.data_dir())
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

/// A quantity of cpus.
fn cpus(quantity: &str) -> f64 {
    let milli = quantity.strip_suffix('m').map(|milli| milli.parse::<f64>().expect("a quantity") / 1000.0);
    milli.unwrap_or_else(|| quantity.parse().expect("a quantity"))
}

/// The whole of it: settles, is measured, is changed, settles, is measured, and ends with nothing lost. Returns what is
/// wrong; `say` is told how it goes.
pub fn measure(scale: &Scale, say: impl Fn(&str)) -> Vec<String> {
    let mut run = Run::start(scale);
    let scene = Scene::draw(scale, run.prng());
    run.put(&scene, None);
    run.load(&scene);
    // All that ran before has ended by then.
    let settling = scale.job_seconds.1 + 5;
    let changed = scene.changed(scale, run.prng());
    let mut problems = Vec::new();
    for (what, scene, before, seconds) in
        [("as drawn", &scene, None, scale.seconds.0), ("changed", &changed, Some(&scene), scale.seconds.1)]
    {
        if before.is_some() {
            run.put(scene, before);
        }
        run.watch(scene, settling);
        let window = run.watch(scene, seconds);
        say(&format!("{what}:\n{}", window.text(scale.percent)));
        problems.extend(window.problems(scale.percent).into_iter().map(|problem| format!("{what}: {problem}")));
    }
    say(&format!("jobs: {:?}", run.count_jobs()));
    say(&run.stop());
    problems
}
