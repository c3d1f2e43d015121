//! Debian packages that the tests need.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::run::step;

/// Package, and why.
const PACKAGES: [(&str, &str); 10] = [
    ("default-jre-headless", "runs Apache ZooKeeper"),
    ("libzookeeper-java", "Apache ZooKeeper, to compare with"),
    ("libslf4j-java", "its logger"),
    ("libcurator-recipes-java", "the Java client that most Java users have"),
    ("libeclipse-jdt-core-java", "compiles the Java test clients, without a JDK"),
    ("chromium", "shows the dashboard"),
    ("chromium-driver", "drives it"),
    ("python3-dev", "compiles a library that kazoo's own tests need"),
    ("python3-venv", "holds kazoo"),
    ("strace", "makes system calls fail"),
];

/// Installs missing packages: as root with apt, otherwise says exactly what to do.
pub fn install() -> Result<()> {
    install_also(&PACKAGES)
}

/// The same for optional packages.
pub fn install_also(packages: &[(&str, &str)]) -> Result<()> {
    let missing: Vec<&str> =
        packages.iter().map(|(name, _)| *name).filter(|package| !is_installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        let why: Vec<String> = packages
            .iter()
            .filter(|(name, _)| missing.contains(name))
            .map(|(name, why)| format!("  {name:<28}{why}"))
            .collect();
        bail!(
            "the tests need Debian packages that are not installed:\n{}\ninstall them with\n  sudo apt-get install --no-install-recommends {}",
            why.join("\n"),
            missing.join(" ")
        );
    }
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet").args(arguments);
        command
    };
    step("apt-get update", &mut apt(&["update"]))?;
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(&missing);
    step(&format!("apt-get install {}", missing.join(" ")), &mut apt(&arguments))
}

fn is_installed(package: &str) -> bool {
    Command::new("dpkg-query")
        .args(["--show", "--showformat=${db:Status-Abbrev}", package])
        .stderr(Stdio::null())
        .output()
        .is_ok_and(|output| output.stdout.starts_with(b"ii"))
}
