#!/bin/sh
# After an installation or upgrade, by dpkg (configure [OLD VERSION]) or rpm (1: installation, 2: upgrade).
set -e
systemd-sysusers ${DPKG_ROOT:+"--root=$DPKG_ROOT"} kinesin.conf
if [ -d "$DPKG_ROOT/run/systemd/system" ]; then
	systemctl daemon-reload
	systemctl try-restart kinesin.service
fi
case $1:$2 in
configure: | 1:) echo 'kinesin: settings are in /etc/kinesin/kinesin.yaml; systemctl enable --now kinesin starts the server' ;;
esac
