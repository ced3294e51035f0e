#!/bin/sh
# focus-validator 2.2.1 (the FinOps Foundation's own validator of FOCUS), model 1.2.0.1, Python 3.12 or newer.
#
# FOCUS 1.2 says of the column InvoiceId: null if the charge is on no invoice (rule InvoiceId-C-004-C), not null if it is on one
# (InvoiceId-C-005-C). The rule InvoiceId-C-003-C joins both with OR, and it passes. The validator also reports and counts each
# of the two by itself, so that one of them fails for every charge, on an invoice or not: no file with a charge is
# without a failure. Whoever wants "Fail: 0" of a bill must leave these two rules out of the count.
#
# The validator opens its tables by a path relative to the working directory, so it runs in its own folder here. It pins NumPy
# 1.26.4 and names no version of pyarrow, whose 26.0.1 needs NumPy 2: without a pin of pyarrow it does not start.
set -eu

version=2.2.1
for python in python3.12 python3.13 python3.14 python3; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && break
    python=
done
[ "$python" ] || { echo "Python 3.12 or newer is needed" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "focus-validator==$version" pyarrow==21.0.0
cd "$("$folder/venv/bin/python" -c 'import focus_validator, os; print(os.path.dirname(os.path.dirname(focus_validator.__file__)))')"

# One charge of a valid bill, with the columns that the rules read.
for invoice in "" INV-2026-11; do
    file="$folder/charge-$invoice.csv"
    {
        echo "BilledCost,BillingAccountId,BillingCurrency,BillingPeriodStart,BillingPeriodEnd,ChargeCategory,InvoiceId"
        echo "8.00,account-1,USD,2026-11-01T00:00:00Z,2026-12-01T00:00:00Z,Usage,$invoice"
    } > "$file"
    said=$("$folder/venv/bin/focus-validator" --data-file "$file" --validate-version 1.2 --block-download \
        --filter-rules InvoiceId 2>/dev/null | sed -nE "s/^[^ ]* (InvoiceId-C-00[345]-C: (PASS|FAIL)).*/\1/p" | sort)
    echo "InvoiceId '$invoice':"
    echo "$said"
    failing=InvoiceId-C-005-C
    [ -z "$invoice" ] || failing=InvoiceId-C-004-C
    echo "$said" | grep -q "InvoiceId-C-003-C: PASS" || { echo "changed: the rule that joins both does not pass" >&2; exit 1; }
    echo "$said" | grep -q "$failing: FAIL" || { echo "changed: $failing is not reported as failed any more" >&2; exit 1; }
    [ "$(echo "$said" | grep -c FAIL)" = 1 ] || { echo "changed: not exactly one of the two fails" >&2; exit 1; }
done
echo "focus-validator $version: of two rules joined with OR one is counted as failed, whatever the charge"
