//! A task as the registry knows it: what it is called, what can be set, how it is made.

use crate::env::Env;
use crate::group::TaskGroup;
use crate::registry::TaskError;
use spectral_core::settings::{Schema, Settings, Values};
use std::fmt;
use std::sync::Arc;

type Make = dyn Fn(&Values) -> Result<Box<dyn Env>, TaskError> + Send + Sync;
type MakeGroup = dyn Fn(&Values, usize) -> Result<TaskGroup, TaskError> + Send + Sync;
type Resolve = dyn Fn(&mut Values) -> Result<(), TaskError> + Send + Sync;

/// Plain scores per episode that others are compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceScores {
    /// Mean of uniformly random play.
    pub random: f64,
    /// The best known or possible mean; `None` where nobody knows.
    pub best: Option<f64>,
    /// Where the best score comes from.
    pub best_is: String,
}

/// A task describes itself: everything that the command, files, tests, documents and the report know about it.
///
/// ```
/// use spectral_env::{TaskEntry, TaskOptions, make};
/// let mine = TaskEntry::with_settings("my-pong", "Pong as I like it", |options: &TaskOptions| {
///     make("pong-mini", &TaskOptions { frame_skip: 2, ..options.clone() })
/// });
/// let env = mine.make(&mine.schema().defaults())?;
/// assert_eq!(env.spec().frames_per_step, 2);
/// # Ok::<(), spectral_env::TaskError>(())
/// ```
#[derive(Clone)]
pub struct TaskEntry {
    name: String,
    summary: String,
    page: Option<String>,
    scores: Option<ReferenceScores>,
    views: Vec<String>,
    protocol: String,
    roms: Vec<String>,
    variants: Vec<String>,
    before: Vec<(String, String)>,
    schema: Schema,
    resolve: Arc<Resolve>,
    make: Arc<Make>,
    make_group: Option<Arc<MakeGroup>>,
    spares: bool,
    repeats: bool,
}

impl TaskEntry {
    /// A task without settings, from a function that makes a fresh instance.
    pub fn new<E: Env + 'static>(
        name: &str,
        summary: &str,
        make: impl Fn() -> E + Send + Sync + 'static,
    ) -> Self {
        Self::with_settings(name, summary, move |(): &()| Ok(Box::new(make())))
    }

    /// A task with settings of type `S`, from a function that makes a fresh instance of them.
    pub fn with_settings<S: Settings>(
        name: &str,
        summary: &str,
        make: impl Fn(&S) -> Result<Box<dyn Env>, TaskError> + Send + Sync + 'static,
    ) -> Self {
        TaskEntry {
            name: name.into(),
            summary: summary.into(),
            page: None,
            scores: None,
            views: Vec::new(),
            protocol: "quick".into(),
            roms: Vec::new(),
            variants: Vec::new(),
            before: Vec::new(),
            schema: Schema::of::<S>(),
            resolve: Arc::new(|_| Ok(())),
            make: Arc::new(move |values| make(&values.read::<S>()?)),
            make_group: None,
            spares: true,
            repeats: false,
        }
    }

    /// The page that describes it, in the project's repository.
    pub fn page(mut self, page: &str) -> Self {
        self.page = Some(page.into());
        self
    }

    /// Scores that others are compared with.
    pub fn scores(mut self, random: f64, best: Option<f64>, best_is: &str) -> Self {
        self.scores = Some(ReferenceScores { random, best, best_is: best_is.into() });
        self
    }

    /// How the task can be seen, for lists.
    pub fn views<T: AsRef<str>>(mut self, views: &[T]) -> Self {
        self.views = views.iter().map(|view| view.as_ref().to_string()).collect();
        self
    }

    /// The protocol that runs of this task have unless another is chosen; `quick` if this is never called.
    pub fn protocol(mut self, protocol: &str) -> Self {
        self.protocol = protocol.into();
        self
    }

    /// The games whose ROMs the task needs.
    pub fn roms(mut self, games: &[&str]) -> Self {
        self.roms = games.iter().map(|game| game.to_string()).collect();
        self
    }

    /// Settings worth a test beside the defaults: each a text like `"observation=planes"`.
    pub fn variants(mut self, variants: &[&str]) -> Self {
        self.variants.extend(variants.iter().map(|text| text.to_string()));
        self
    }

    /// What a setting was before it could be set. Runs that were made then do not record it; they are resumed, and played,
    /// with this value, whatever the default is now.
    ///
    /// ```
    /// use spectral_env::{TaskEntry, TaskOptions, make};
    /// let task = TaskEntry::with_settings("my-pong", "", |options: &TaskOptions| make("pong-mini", options));
    /// let task = task.before("frame_skip", "4");
    /// assert_eq!(task.schema().defaults().get("frame_skip"), Some("1"));
    /// assert_eq!(task.unrecorded().get("frame_skip"), Some("4"));
    /// ```
    ///
    /// # Panics
    /// If the task has no such setting, or the value does not fit it.
    pub fn before(mut self, key: &str, value: &str) -> Self {
        let fits = self.schema.set(&mut self.schema.defaults(), key, value);
        assert!(fits.is_ok(), "{}: {fits:?}", self.name);
        self.before.push((key.into(), value.into()));
        self
    }

    /// A function that replaces settings such as `auto` by what they stand for, before they are written down.
    pub fn resolve_settings<S: Settings>(
        mut self,
        resolve: impl Fn(&mut S) -> Result<(), TaskError> + Send + Sync + 'static,
    ) -> Self {
        self.resolve = Arc::new(move |values| {
            let mut typed = values.read::<S>()?;
            resolve(&mut typed)?;
            *values = typed.values();
            Ok(())
        });
        self
    }

    /// A function that makes several instances which are stepped together; a population on a CPU then steps them so.
    pub fn stepped_together<S: Settings>(
        mut self,
        make: impl Fn(&S, usize) -> Result<TaskGroup, TaskError> + Send + Sync + 'static,
    ) -> Self {
        self.make_group = Some(Arc::new(move |values, count| make(&values.read::<S>()?, count)));
        self
    }

    /// Says that there are no instances beside those that train, so that none can be played meanwhile.
    ///
    /// ```
    /// use spectral_env::{TaskEntry, TaskOptions, make};
    /// let task = TaskEntry::with_settings("my-pong", "", |options: &TaskOptions| make("pong-mini", options));
    /// assert!(task.has_spares() && !task.without_spares().has_spares());
    /// ```
    pub fn without_spares(mut self) -> Self {
        self.spares = false;
        self
    }

    /// Says that the task repeats itself to the bit: what follows depends on what it saves, the actions and the random numbers that
    /// it is given, and on nothing else, in every instance and on every machine. The built-in tasks do.
    ///
    /// Where the disk is too small for replay, `checkpoint = auto` then keeps the actions and plays them again.
    ///
    /// ```
    /// use spectral_env::{TaskEntry, TaskOptions, make};
    /// let task = TaskEntry::with_settings("my-pong", "", |options: &TaskOptions| make("pong-mini", options));
    /// assert!(!task.repeats_itself() && task.repeating().repeats_itself());
    /// assert!(spectral_env::entries().iter().all(TaskEntry::repeats_itself));
    /// ```
    pub fn repeating(mut self) -> Self {
        self.repeats = true;
        self
    }

    /// The task's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line on what it is.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// The page that describes it, if it has one.
    pub fn documentation(&self) -> Option<&str> {
        self.page.as_deref()
    }

    /// Scores that others are compared with, if they are known.
    pub fn reference_scores(&self) -> Option<&ReferenceScores> {
        self.scores.as_ref()
    }

    /// How the task can be seen.
    pub fn observations(&self) -> &[String] {
        &self.views
    }

    /// The protocol that its runs have unless another is chosen.
    pub fn default_protocol(&self) -> &str {
        &self.protocol
    }

    /// The games whose ROMs the task needs.
    pub fn games(&self) -> &[String] {
        &self.roms
    }

    /// Settings worth a test beside the defaults.
    pub fn test_variants(&self) -> &[String] {
        &self.variants
    }

    /// What can be set about it.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// What its settings are where a run does not record them: the defaults, but for those that came [later](TaskEntry::before).
    pub fn unrecorded(&self) -> Values {
        let mut values = self.schema.defaults();
        for (key, value) in &self.before {
            self.schema.set(&mut values, key, value).expect("checked when it was declared");
        }
        values
    }

    /// Whether a setting came after runs had been made without it ([`before`](TaskEntry::before)).
    pub fn came_later(&self, key: &str) -> bool {
        self.before.iter().any(|(later, _)| later == key)
    }

    /// Replaces settings such as `auto` by what they stand for; an error says what the task has instead.
    pub fn resolve(&self, values: &mut Values) -> Result<(), TaskError> {
        (self.resolve)(values)
    }

    /// A fresh instance. [`Env::reset`] begins its first episode.
    pub fn make(&self, values: &Values) -> Result<Box<dyn Env>, TaskError> {
        (self.make)(values)
    }

    /// Whether its instances are stepped together.
    pub fn is_stepped_together(&self) -> bool {
        self.make_group.is_some()
    }

    /// Whether an instance can be made beside those that train, as evaluation during training needs.
    pub fn has_spares(&self) -> bool {
        self.spares
    }

    /// Whether the task is known to repeat itself to the bit ([`repeating`](TaskEntry::repeating)).
    pub fn repeats_itself(&self) -> bool {
        self.repeats
    }

    /// Fresh instances that are stepped together, if the task offers that.
    pub fn make_group(&self, values: &Values, count: usize) -> Option<Result<TaskGroup, TaskError>> {
        self.make_group.as_ref().map(|make| make(values, count))
    }
}

impl fmt::Debug for TaskEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskEntry").field("name", &self.name).finish_non_exhaustive()
    }
}
