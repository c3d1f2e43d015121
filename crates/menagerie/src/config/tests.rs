use super::*;

fn file(text: &str) -> Option<(FileText, Origin)> {
    let file = FileText { path: PathBuf::from("/etc/menagerie/menagerie.toml"), text: text.to_owned() };
    Some((file, Origin::Default))
}

fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn at(line: usize) -> Origin {
    Origin::File { path: PathBuf::from("/etc/menagerie/menagerie.toml"), line }
}

const FILE: &str = "\
[zookeeper]
servers = \"file:1\"
namespace = \"/from-file\"
session_timeout = \"2m\"
auth_file = \"secrets/digest\"

[zookeeper.tls]
ca = \"/tls/ca.pem\"
";

#[test]
fn flag_comes_before_environment_before_file_before_local_before_default() {
    let mut inputs = Inputs {
        zookeeper: Some("flag:1".to_owned()),
        environment: environment(&[("MENAGERIE_ZOOKEEPER", "env:1")]),
        file: file(FILE),
        local: Some(("local:1".to_owned(), PathBuf::from("/data/addresses.json"))),
        ..Inputs::default()
    };
    let expect = |inputs: &Inputs, value: &str, origin: Origin| {
        let servers = resolve(inputs).unwrap().servers;
        assert_eq!((servers.value.to_string().as_str(), servers.origin), (value, origin));
    };
    expect(&inputs, "flag:1", Origin::Flag("--zookeeper"));
    inputs.zookeeper = None;
    expect(&inputs, "env:1", Origin::Environment("MENAGERIE_ZOOKEEPER"));
    inputs.environment = environment(&[("MENAGERIE_ZOOKEEPER", "")]);
    expect(&inputs, "file:1", at(2));
    inputs.file = None;
    expect(&inputs, "local:1", Origin::Addresses(PathBuf::from("/data/addresses.json")));
    inputs.local = None;
    expect(&inputs, "127.0.0.1:2181", Origin::Default);
}

#[test]
fn every_key_of_a_file_is_read_with_its_line() {
    let settings = resolve(&Inputs { file: file(FILE), ..Inputs::default() }).unwrap();
    assert_eq!(settings.namespace, Chosen { value: "/from-file".to_owned(), origin: at(3) });
    assert_eq!(settings.session_timeout, Chosen { value: Duration::from_secs(120), origin: at(4) });
    let secret = PathBuf::from("/etc/menagerie/secrets/digest");
    assert_eq!(settings.auth, Some(Chosen { value: Auth::File(secret), origin: at(5) }));
    assert_eq!(settings.tls_ca, Some(Chosen { value: PathBuf::from("/tls/ca.pem"), origin: at(8) }));
}

#[test]
fn numbers_are_seconds() {
    let seconds = "[zookeeper]\nsession_timeout = 7\n";
    let settings = resolve(&Inputs { file: file(seconds), ..Inputs::default() }).unwrap();
    assert_eq!(settings.session_timeout.value, Duration::from_secs(7));
}

#[test]
fn what_is_wrong_in_a_file_is_told_with_its_line() {
    for (text, line, words) in [
        ("[zookeeper]\nsevrers = \"a:1\"\n", 2, ["unknown field", "sevrers"]),
        ("\n[zoo]\n", 2, ["unknown field", "zoo"]),
        ("[zookeeper]\nservers = 5\n", 2, ["invalid type", "string"]),
        ("[zookeeper]\nservers = \"a:1\n", 2, ["", ""]),
        ("[zookeeper]\nsession_timeout = -1\n", 2, ["duration", "negative"]),
        ("[zookeeper]\nsession_timeout = 1.5\n", 2, ["invalid type", "90s"]),
        ("[zookeeper]\n\nsession_timeout = \"soon\"\n", 3, ["session_timeout", "90s"]),
        ("[zookeeper]\nsession_timeout = \"2d\"\n", 2, ["session_timeout", "out of range"]),
        ("[zookeeper]\nservers = \"a:b\"\n", 2, ["zookeeper.servers", "HOST:PORT"]),
        ("[zookeeper]\nnamespace = \"menagerie\"\n", 2, ["zookeeper.namespace", "begin with /"]),
        ("[zookeeper]\nauth = \"me:x\"\nauth_file = \"x\"\n", 3, ["zookeeper.auth_file", "both"]),
        ("[zookeeper.tls]\ncert = \"x\"\n", 2, ["zookeeper.tls.cert", "zookeeper.tls.key"]),
        ("[zookeeper.tls]\ncert = \"x\"\nkey = \"y\"\n", 2, ["zookeeper.tls.cert", "zookeeper.tls.ca"]),
    ] {
        let error = resolve(&Inputs { file: file(text), ..Inputs::default() }).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("/etc/menagerie/menagerie.toml:{line}")), "{text}");
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        assert!(!error.help().is_empty());
    }
}

#[test]
fn secrets_show_in_no_error_and_no_debug_output() {
    for text in
        ["[zookeeper]\nauth = \"hush\"\n", "[zookeeper]\nauth = \"me:hush\"\nx = 1\n", "auth = \"hush\n"]
    {
        let error = resolve(&Inputs { file: file(text), ..Inputs::default() }).unwrap_err();
        assert!(!format!("{error} {} {error:?}", error.help()).contains("hush"), "{error}");
    }
    let settings = resolve(&Inputs {
        environment: environment(&[("MENAGERIE_ZOOKEEPER_AUTH", "me:hush")]),
        file: file(FILE),
        ..Inputs::default()
    });
    let settings = settings.unwrap();
    assert!(matches!(
        &settings.auth,
        Some(Chosen { value: Auth::Digest(_), origin: Origin::Environment(_) })
    ));
    assert!(!format!("{settings:?}").contains("hush"));
}

#[test]
fn what_journals_are_known_by_comes_from_the_environment_or_the_file() {
    let text = "[journal]\ntoken_file = \"tokens\"\nca = \"/tls/ca.pem\"\n";
    let mut inputs = Inputs { file: file(text), ..Inputs::default() };
    let settings = resolve(&inputs).unwrap();
    let tokens = PathBuf::from("/etc/menagerie/tokens");
    assert_eq!(settings.journal_token_file, Some(Chosen { value: tokens, origin: at(2) }));
    assert_eq!(settings.journal_ca, Some(Chosen { value: PathBuf::from("/tls/ca.pem"), origin: at(3) }));
    inputs.environment = environment(&[("MENAGERIE_JOURNAL_TOKEN_FILE", "here")]);
    let chosen = resolve(&inputs).unwrap().journal_token_file.unwrap();
    assert_eq!(chosen.origin, Origin::Environment("MENAGERIE_JOURNAL_TOKEN_FILE"));
    assert_eq!(chosen.value, PathBuf::from("here"), "from where we are, not from where the file is");
}
