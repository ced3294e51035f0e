#!/bin/bash
# Ends this EC2 instance when no Charterer has renewed it for as long as its tags say.
#
# Run as user data it installs itself as a systemd timer that looks once a minute. Charterer sets two tags on the instance:
# charterer.dev:abandon-after (seconds, or "never") and charterer.dev:renewed, which it changes while it lives. The time
# since the last change is counted by the kernel's uptime, so no clock that jumps ends anything. What cannot be read
# counts as not renewed. An instance that never had the first tag never ends itself.
#
# The launch template needs MetadataOptions.InstanceMetadataTags=enabled and InstanceInitiatedShutdownBehavior=terminate.
set -u

IMDS="${CHARTERER_IMDS:-http://169.254.169.254}"
STATE="${CHARTERER_STATE:-/run/charterer-abandon}" # gone after a reboot, as the uptime is
UPTIME="${CHARTERER_UPTIME:-/proc/uptime}"
ROOT="${CHARTERER_ROOT:-}"

fetch() { # a tag of this instance, on one line; fails where it cannot be read
    local token
    token=$(curl -sf -m 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$IMDS/latest/api/token") || return 1
    curl -sf -m 5 -H "X-aws-ec2-metadata-token: $token" "$IMDS/latest/meta-data/tags/instance/charterer.dev:$1"
}

look() {
    local now limit renewed known_limit='' known_renewed='' since=''
    now=$(cut -d. -f1 "$UPTIME")
    if [ -f "$STATE" ]; then
        { read -r known_limit; read -r known_renewed; read -r since; } <"$STATE"
    fi
    limit=$(fetch abandon-after) || limit=$known_limit
    renewed=$(fetch renewed) || renewed=$known_renewed
    case "$since" in
        '' | *[!0-9]*) since=0 ;; # nothing known: its launch counts
    esac
    [ "$renewed" = "$known_renewed" ] || since=$now
    printf '%s\n%s\n%s\n' "$limit" "$renewed" "$since" >"$STATE.new" && mv "$STATE.new" "$STATE"
    case "$limit" in
        '' | *[!0-9]*) return 0 ;; # no limit, or "never"
    esac
    if [ $((now - since)) -ge "$limit" ]; then
        logger -t charterer-abandon "nobody renewed this instance for $((now - since)) s: shutting down"
        systemctl poweroff
    fi
}

install_timer() {
    mkdir -p "$ROOT/usr/local/sbin" "$ROOT/etc/systemd/system"
    install -m 755 "$0" "$ROOT/usr/local/sbin/charterer-abandon"
    cat >"$ROOT/etc/systemd/system/charterer-abandon.service" <<'UNIT'
[Unit]
Description=End this instance when no Charterer renews it
[Service]
Type=oneshot
TimeoutStartSec=50
ExecStart=/usr/local/sbin/charterer-abandon look
UNIT
    cat >"$ROOT/etc/systemd/system/charterer-abandon.timer" <<'UNIT'
[Unit]
Description=Look every minute whether a Charterer has renewed this instance
[Timer]
OnBootSec=60
OnUnitActiveSec=60
AccuracySec=5
[Install]
WantedBy=timers.target
UNIT
    systemctl daemon-reload
    systemctl enable --now charterer-abandon.timer
}

if [ "${1:-install}" = look ]; then look; else install_timer; fi
