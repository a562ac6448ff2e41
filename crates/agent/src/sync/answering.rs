//! Answering questions between two syncs.

use std::time::{Duration, Instant};

use super::{SyncLoop, planner};
use crate::questions::{self, Question, ServiceStatus, Unanswered, View};

/// After the last question, so that frequent questions, such as those of an open page, do not pay for it.
pub(super) const TIDY_AFTER: Duration = Duration::from_secs(5);

impl SyncLoop {
    /// Answers are made of many short-lived pieces, which the allocator keeps: more than a megabyte after questions about
    /// large services. To give it back takes 0.05 to 0.25 ms with 10,000 services. Another thread would not spare this one
    /// the wait: there is one heap, locked meanwhile.
    pub(super) fn tidy_up(&mut self) {
        if self.answered.is_some_and(|at| at.elapsed() >= TIDY_AFTER) {
            self.answered = None;
            kernel::memory::give_back();
        }
    }

    pub(super) fn answer_questions(&mut self) {
        if !self.questions.is_empty() {
            self.answered = Some(Instant::now());
        }
        for question in std::mem::take(&mut self.questions) {
            let planner = planner(&self.state, &self.node, &self.options);
            match question {
                Question::ServiceStatus(service, reply) => reply.answer(ServiceStatus::of(
                    &service,
                    &self.state,
                    &planner,
                    &self.reconciler,
                    &self.lanes,
                )),
                Question::ServiceNames(None, reply) => reply.answer(self.state.services().cloned().collect()),
                Question::ServiceNames(Some(ip), reply) => {
                    reply.answer(questions::services_at(ip, &self.reconciler));
                }
                Question::ServiceRows(services, reply) => {
                    let described =
                        questions::describe(&services, &self.state, &self.reconciler, &self.lanes);
                    reply.answer(described);
                }
                Question::Problematic(services, reply) => {
                    reply.answer(questions::judge(&services, &self.state, &self.reconciler));
                }
                Question::Ports(service, from, reply) => {
                    let judged = questions::judge_ports(&service, from, &self.state, &self.reconciler);
                    reply.answer(judged);
                }
                Question::InspectAll(family, _, reply) if self.reconciler.is_unknown(family) => {
                    reply.decline(Unanswered::Rewriting);
                }
                Question::InspectAll(family, wanted, reply) => {
                    reply.answer(self.reconciler.inspect_all(family, wanted.as_ref()));
                }
                Question::InspectServices(wanted, reply)
                    if wanted.families().any(|family| self.reconciler.is_unknown(family)) =>
                {
                    reply.decline(Unanswered::Rewriting);
                }
                Question::InspectServices(wanted, reply) => {
                    reply.answer(questions::inspect(&wanted, &mut self.reconciler));
                }
                Question::Explain(request, reply) => reply.answer(request.answer(View {
                    state: &self.state,
                    node: &self.node,
                    planner: &planner,
                    reconciler: &mut self.reconciler,
                    lanes: &self.lanes,
                    detector: &self.setup.detector,
                    mode: self.options.mode.word(),
                })),
            }
        }
    }
}
