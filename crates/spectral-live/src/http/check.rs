//! Who is let in.

use super::parse::{Head, Refusal};
use super::{Access, Handler, Method, token};

/// What a request must show.
pub(super) struct Gate {
    port: u16,
    hosts: Vec<String>,
    pub token: String,
}

impl Gate {
    pub fn new(port: u16, token: String) -> Gate {
        let names = ["127.0.0.1", "localhost", "[::1]"];
        let mut hosts: Vec<String> = names.iter().map(|name| format!("{name}:{port}")).collect();
        if port == 80 {
            // Browsers leave this port out.
            hosts.extend(names.map(String::from));
        }
        Gate { port, hosts, token }
    }

    /// Every check after the request's form, in the order in which the module's page lists them.
    pub fn check(&self, head: &Head, handler: &dyn Handler) -> Result<(Method, Access), Refusal> {
        let host =
            head.host.as_ref().filter(|host| self.hosts.contains(host)).ok_or_else(|| self.wrong_host())?;
        let (method, access) = route(head, handler)?;
        if access != Access::Open
            && !head.authorization.as_ref().is_some_and(|a| token::shown(a, &self.token))
        {
            let line = "The token is missing or wrong: open the whole address that the program printed.";
            return Err(Refusal::new(401, line));
        }
        if access == Access::Act
            && head.origin.as_deref().and_then(|o| o.strip_prefix("http://")) != Some(host)
        {
            let line = format!("Only this server's own page may do this: send Origin: http://{host}.");
            return Err(Refusal::new(403, line));
        }
        Ok((method, access))
    }

    fn wrong_host(&self) -> Refusal {
        let port = self.port;
        let line = format!(
            "This server answers to Host 127.0.0.1:{port}, localhost:{port} and [::1]:{port} only. \
             With ssh -L the local port must be the same: ssh -L {port}:127.0.0.1:{port} MACHINE."
        );
        Refusal::new(421, line)
    }
}

fn route(head: &Head, handler: &dyn Handler) -> Result<(Method, Access), Refusal> {
    if let Some(method) = head.method
        && let Some(access) = handler.access(method, &head.path)
    {
        return Ok((method, access));
    }
    let has = |method| handler.access(method, &head.path).is_some();
    let allow = match (has(Method::Get), has(Method::Post)) {
        (false, false) => return Err(Refusal::new(404, "There is nothing here; the page is at /.")),
        (true, false) => "GET",
        (false, true) => "POST",
        (true, true) => "GET, POST",
    };
    Err(Refusal { allow: Some(allow), ..Refusal::new(405, format!("Ask for this with {allow}.")) })
}
