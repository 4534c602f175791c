//! The methods: one table.

macro_rules! methods {
    ($($name:ident $text:literal)*) => {
        /// What a request asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Method {
            $(#[doc = $text] $name,)*
            /// None that RFC 2326 knows.
            Unknown,
        }

        impl Method {
            /// The method called `name`; case matters.
            pub fn of(name: &str) -> Method {
                match name { $($text => Method::$name,)* _ => Method::Unknown }
            }

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Method::$name => $text,)* Method::Unknown => "UNKNOWN" }
            }
        }
    };
}

methods! {
    Options "OPTIONS"
    Describe "DESCRIBE"
    Setup "SETUP"
    Play "PLAY"
    Pause "PAUSE"
    Teardown "TEARDOWN"
    GetParameter "GET_PARAMETER"
    SetParameter "SET_PARAMETER"
    Announce "ANNOUNCE"
    Record "RECORD"
    Redirect "REDIRECT"
}

impl Method {
    /// Those that a server of recorded films knows, as Public and Allow say it.
    pub const PUBLIC: &str = "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER, SET_PARAMETER";
}
