mod assignment;
mod failure;
mod ledger;
mod turn;
