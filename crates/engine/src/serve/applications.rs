//! Turns routes into what answers them: upstreams, scripts, and the application that this server runs.

use std::ffi::CString;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail, ensure};
use sojourn_cgi::Application;
use sojourn_http::Status;
use sojourn_server::applications::{ScriptSettings, Scripts, WorkerSettings, Workers};
use sojourn_server::connection::Address;
use sojourn_server::handler::reverse_proxy::{Protocol, Proxy, Upstream, UpstreamState, UpstreamUrl, watch};
use sojourn_server::handler::routes::{Action, Pattern, Route, Routes, Table};
use sojourn_server::{Architecture, CacheScope, Site};

use super::application_socket::ApplicationSocket;
use super::options::Options;
use super::options::bucket::let_signers_wait;
use super::options::route::{RouteValue, Target};
use super::options::routes::Command;

/// Bytes of the random part of a proxy's name.
const PSEUDONYM_BYTES: usize = 4;

/// The application that this server runs.
#[derive(Debug)]
pub struct RunningApplication {
    workers: Arc<Workers>,
    socket: PathBuf,
}

/// What routes lead to.
#[derive(Debug, Default)]
pub struct OpenRoutes {
    /// It runs as long as this is there.
    pub application: Option<RunningApplication>,
    pub proxy: Option<Arc<Proxy>>,
    /// One process learns how its upstreams are doing; several would each have to ask.
    is_watched: bool,
}

impl RunningApplication {
    /// The argument that tells a program that serves one connection where the application is.
    pub fn socket_argument(&self) -> anyhow::Result<CString> {
        let word = [b"--app-socket=", self.socket.as_os_str().as_bytes()].concat();
        Ok(CString::new(word)?)
    }
}

impl Options {
    /// Gives `site` its routes, if there are any, and starts the programs that they need.
    pub fn open_routes(
        &self,
        site: &mut Site,
        architecture: &dyn Architecture,
    ) -> anyhow::Result<OpenRoutes> {
        let options = &self.routes;
        let is_named = options.route.iter().any(|route| matches!(route.target, Target::App(_)));
        let has_app = options.app.is_some();
        ensure!(
            has_app || !is_named,
            "a route leads to the application, and there is none\nhint: give its command by --app"
        );
        if options.route.is_empty() && !has_app {
            return Ok(OpenRoutes::default());
        }
        ensure!(
            site.content.kind().name == sojourn_server::handler::static_files::KIND.name,
            "routes lead to files, and --handler puts something else in their place\nhint: leave --handler out"
        );
        let (socket, running) = match &options.app {
            None => (None, None),
            Some(command) => {
                let (socket, running) = self.application(command)?;
                (Some(socket), running)
            }
        };
        let is_one = architecture.cache_scope() == Some(CacheScope::Server);
        let mut opening = Opening {
            options: self,
            upstreams: Vec::new(),
            services: Vec::new(),
            socket,
            loops: is_one.then_some(site.workers),
        };
        let mut routes = Vec::new();
        for RouteValue { pattern, target } in &options.route {
            routes.push(Route { pattern: pattern.clone(), action: opening.action(pattern, target)? });
        }
        if has_app && !is_named {
            let pattern = Pattern::Below(Box::default());
            let action = opening.action(&pattern, &Target::App(Arc::new(Application::default())))?;
            routes.push(Route { pattern, action });
        }
        let Opening { mut upstreams, services, .. } = opening;
        Upstream::count_together(&mut upstreams);
        if !is_one {
            upstreams.iter_mut().for_each(Upstream::share_among_processes);
            let_signers_wait(&upstreams);
        }
        let proxy = if services.is_empty() {
            None
        } else {
            let pseudonym = draw_pseudonym()?;
            Some(Arc::new(Proxy { upstreams, hosts: services, forward: None, pseudonym, cache: None }))
        };
        let health_check = self.upstreams.health_check();
        ensure!(
            is_one || health_check.is_none(),
            "with {}, each process would need its own health checks (--health-path)\nhint: choose an \
             architecture that is one process: mt or an event loop",
            architecture.name()
        );
        site.limits.upstream = self.upstreams.limits();
        let workers = running.as_ref().map(|running: &RunningApplication| Arc::clone(&running.workers));
        let open = OpenRoutes { application: running, proxy: proxy.clone(), is_watched: is_one };
        site.content = Arc::new(Routes { table: Arc::new(Table { routes }), proxy, workers });
        Ok(open)
    }

    /// Has the upstreams of routes watched from now on.
    pub fn watch_upstreams(&self, routes: &OpenRoutes) -> anyhow::Result<()> {
        match routes.proxy.as_ref().filter(|_| routes.is_watched) {
            Some(proxy) => {
                watch(proxy, self.upstreams.health_check().as_ref()).context("cannot watch the upstreams")
            }
            None => Ok(()),
        }
    }

    /// Starts the application, unless another process of this server runs it; returns its socket.
    fn application(&self, command: &Command) -> anyhow::Result<(PathBuf, Option<RunningApplication>)> {
        let options = &self.routes;
        if let Some(socket) = &options.app_socket {
            return Ok((socket.clone(), None));
        }
        let (kept, listening) = ApplicationSocket::listen()?;
        let socket = kept.path();
        let workers = Workers::start(WorkerSettings {
            command: command.0.iter().map(Into::into).collect(),
            count: options.app_workers.into(),
            socket: listening,
            grace: options.app_stop_timeout,
            kept: Box::new(kept),
        });
        let workers = workers.map_err(|error| {
            anyhow!("{error}\nhint: --app takes a program and its arguments, without a shell; is it there, and executable?")
        })?;
        Ok((socket.clone(), Some(RunningApplication { workers: Arc::new(workers), socket })))
    }
}

/// Routes being set up.
struct Opening<'a> {
    options: &'a Options,
    upstreams: Vec<Upstream>,
    /// The range of upstreams of each service.
    services: Vec<Range<usize>>,
    /// The socket of the application that this server runs.
    socket: Option<PathBuf>,
    /// The number of loops that may each keep connections to the application and know of each other; `None` if
    /// processes serve, which do not.
    loops: Option<usize>,
}

impl Opening<'_> {
    fn action(&mut self, pattern: &Pattern, target: &Target) -> anyhow::Result<Action> {
        let first = self.upstreams.len();
        match target {
            Target::Files => return Ok(Action::Files),
            Target::Redirect(redirection) => return Ok(Action::Redirect(redirection.clone())),
            Target::Answer { status, media_type, body } => {
                let (status, media_type, body): (Status, _, _) = (*status, media_type.clone(), body.clone());
                return Ok(Action::Answer { status, media_type, body });
            }
            Target::Upstreams(urls, application) => {
                let application = self.with_root(application)?;
                let urls: Vec<(&UpstreamUrl, _)> = urls.iter().map(|url| (url, &application)).collect();
                self.upstreams.extend(self.options.upstreams.upstreams(urls.into_iter())?);
            }
            Target::App(application) => {
                let protocol = match self.options.routes.app_protocol.as_str() {
                    "http" => Protocol::Http,
                    _ => Protocol::FastCgi(self.with_program(&self.with_root(application)?)),
                };
                let socket = self.socket.clone().context("no application")?;
                let state = UpstreamState::new(&[Address::Unix(socket.as_path().into())]);
                // An application's process serves one connection at a time, so idle connections must leave some
                // processes free.
                let processes = usize::from(self.options.routes.app_workers);
                let of_each_loop = self.loops.map(|loops| processes / loops.max(1));
                let idle_max = self.options.upstreams.upstream_idle_max.or(of_each_loop);
                let own = local("app", protocol, state);
                self.upstreams.push(Upstream { idle_max, processes: Some(processes), ..own });
            }
            Target::Cgi(directory, application) => {
                let scripts = self.scripts(pattern, directory, application)?;
                let name = format!("cgi:{}", directory.display());
                self.upstreams.push(local(&name, Protocol::Cgi(Arc::new(scripts)), UpstreamState::new(&[])));
            }
        }
        self.services.push(first..self.upstreams.len());
        let service = u16::try_from(self.services.len() - 1).context("there are too many routes")?;
        Ok(Action::Relay(service))
    }

    /// `application` with the site's root unless it has its own.
    fn with_root(&self, application: &Arc<Application>) -> anyhow::Result<Arc<Application>> {
        if !application.root.is_empty() {
            return Ok(Arc::clone(application));
        }
        let root = self.options.root.canonicalize().context("cannot find the site's directory")?;
        let root = root.as_os_str().as_bytes().to_vec();
        Ok(Arc::new(Application { root, ..Application::clone(application) }))
    }

    /// `application`, which answers everything itself unless it has scripts.
    fn with_program(&self, application: &Arc<Application>) -> Arc<Application> {
        let program = self.options.routes.app.as_ref().and_then(|command| command.0.first());
        if application.script.is_some() || !application.suffix.is_empty() {
            return Arc::clone(application);
        }
        let script = program.map(|program| program.clone().into_bytes());
        Arc::new(Application { script, ..Application::clone(application) })
    }

    fn scripts(&self, pattern: &Pattern, directory: &Path, told: &Application) -> anyhow::Result<Scripts> {
        let options = &self.options.routes;
        let prefix = match pattern {
            Pattern::Below(prefix) => prefix.to_vec(),
            Pattern::Suffix(_) => Vec::new(),
            Pattern::Exact(_) => bail!("scripts are below a path"),
        };
        Scripts::start(ScriptSettings {
            directory: directory.to_path_buf(),
            prefix,
            index: told.index.clone(),
            suffix: told.suffix.clone(),
            variables: told.variables.clone(),
            processes_max: options.cgi_processes_max.into(),
            queue_max: options.cgi_queue_max.into(),
            timeout: options.cgi_timeout,
        })
        .map_err(|error| {
            anyhow!(
                "cannot run the scripts of {}: {error}\nhint: `cgi` is a directory that the server may read",
                directory.display()
            )
        })
    }
}

/// A local upstream, without DNS lookup.
fn local(name: &str, protocol: Protocol, state: UpstreamState) -> Upstream {
    Upstream {
        name: name.to_owned(),
        authority: "localhost".to_owned(),
        host: "127.0.0.1".to_owned(),
        port: 0,
        presence: Arc::new(state),
        occupancy: Arc::default(),
        protocol,
        tls: None,
        weight: 1,
        idle_max: None,
        processes: None,
    }
}

/// A name for Via that no other proxy on a request's path has.
pub fn draw_pseudonym() -> anyhow::Result<String> {
    let mut random = [0; PSEUDONYM_BYTES];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| anyhow!("cannot generate a name for Via: {error}\nhint: choose one with --via"))?;
    Ok(format!("sojourn-{:08x}", u32::from_ne_bytes(random)))
}
